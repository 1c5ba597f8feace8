// The page comes alive; without scripts it still says everything but the figures, the calculator and the table.

const DATA = JSON.parse(byId("data").textContent);
const MODELS = new Map(Object.entries(DATA.models).map(([run, model]) => [run, new CostModel(model, DATA.factors)]));

document.documentElement.classList.add("alive");
if (DATA.lines.length) startExplorer(DATA, MODELS);
startTable(DATA);
if (MODELS.size) startCalculator(DATA, MODELS);
startCompared(DATA);

// What is folded on the screen is open on paper.
const folded = [];
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    folded.push(details);
    details.open = true;
  }
});
addEventListener("afterprint", () => {
  folded.splice(0).forEach((details) => { details.open = false; });
});
