(function (name) {
  "use strict";
  const root = document.getElementById(name);
  const data = JSON.parse(root.querySelector(".bwa-data").textContent);
  const part = (which) => root.querySelector(".bwa-" + which);
  const slots = part("slots"), lines = part("lines"), marks = part("marks"), flyers = part("flyers");
  const scrub = root.querySelector("input"), speed = root.querySelector("select");
  const count = part("count"), say = part("say"), playButton = part("play");
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const last = data.steps.length;
  const colour = (role) => "var(--bwa-" + role + ")";
  let time = 0, playing = false, frame = 0, timer = 0;

  // The contents of all slots at each time; a state shares what did not change with the one before it.
  const states = [new Map(data.start)];
  for (const step of data.steps) {
    const next = new Map(states[states.length - 1]);
    for (const [cell, content] of step.set) next.set(cell, content);
    states.push(next);
  }

  function element(tag, attributes, parent) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }

  function drawSlot(parent, box, content, old) {
    const [x, y, w, h] = box, [ranks, level, final, sum] = content || [[], 0, 0, 0];
    element("rect", {x, y, width: w, height: h, rx: 1.5, style: "fill:" + colour("cell")}, parent);
    const piece = ranks.length ? h * level / ranks.length : 0;
    ranks.forEach((rank, i) => element("rect", {
      x, y: y + h - piece * (i + 1), width: w, height: piece,
      style: "fill:" + colour("rank-" + rank) + (old ? ";opacity:.28" : "")}, parent));
    const edge = old ? "edge" : final ? "done" : "cell-edge";
    element("rect", {x, y, width: w, height: h, rx: 1.5,
      style: "fill:none;stroke:" + colour(edge) + ";stroke-width:" + (final && !old ? 1.8 : 1)}, parent);
    if (sum && !old) {
      element("circle", {cx: x + w / 2, cy: y + h / 2, r: 6.5, style: "fill:" + colour("cell")}, parent);
      element("text", {x: x + w / 2, y: y + h / 2, class: "bwa-sigma"}, parent).textContent = "Σ";
    }
  }

  function frameSlot(cell, role, dash) {
    const [x, y, w, h] = data.cells[cell];
    element("rect", {x: x - 1.8, y: y - 1.8, width: w + 3.6, height: h + 3.6, rx: 3,
      style: "fill:none;stroke:" + colour(role) + ";stroke-width:2" + (dash ? ";stroke-dasharray:3 2" : "")}, marks);
  }

  function drawState(at) {
    slots.replaceChildren();
    const old = new Set(at ? data.steps[at - 1].old : data.old);
    data.cells.forEach((box, cell) => drawSlot(slots, box, states[at].get(cell), old.has(cell)));
  }

  function drawArrows(step) {
    lines.replaceChildren();
    for (const line of step.lines) {
      const role = line[line.length - 1] ? "adds" : "copies";
      if (line.length === 4) {
        element("text", {x: line[0], y: line[1], class: "bwa-label bwa-" + role}, lines).textContent = line[2];
        continue;
      }
      const path = element("path", {d: line[0], style: "fill:none;stroke:" + colour(role) + ";stroke-width:2"}, lines);
      const length = path.getTotalLength(), tip = path.getPointAtLength(length), near = path.getPointAtLength(length - 1);
      const turn = Math.atan2(tip.y - near.y, tip.x - near.x) * 180 / Math.PI;
      path.style.strokeDasharray = Math.max(length - 5, 1) + " 9";
      element("path", {d: "M0,0L-9,-4L-9,4Z", style: "fill:" + colour(role),
        transform: "translate(" + tip.x + " " + tip.y + ") rotate(" + turn + ")"}, lines);
    }
  }

  function show(at) {
    stopFlight();
    time = at;
    drawState(at);
    marks.replaceChildren();
    lines.replaceChildren();
    if (at) {
      drawArrows(data.steps[at - 1]);
      for (const [cell, adds] of data.steps[at - 1].kind) frameSlot(cell, adds ? "adds" : "copies");
    }
    const words = at ? data.steps[at - 1].say : "start: what each rank holds before the first step";
    scrub.value = at;
    scrub.setAttribute("aria-valuetext", words.split(":")[0]);
    count.textContent = at + " / " + last;
    say.textContent = words;
    root.dataset.step = at;
  }

  function stopFlight() {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    flyers.replaceChildren();
  }

  const ease = (t) => t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t);

  // What moves in the step after `time` flies from where it is to where it goes, then the next state is shown.
  function advance(then) {
    const step = data.steps[time], pace = Number(speed.value) || 1;
    if (calm.matches) {
      show(time + 1);
      timer = setTimeout(then, 1400 / pace);
      return;
    }
    drawArrows(step);
    marks.replaceChildren();
    const kinds = new Map(step.kind);
    for (const [from, to] of step.fly) frameSlot(from, kinds.get(to) ? "adds" : "copies", true);
    const flights = step.fly.map(([from, to]) => {
      const group = element("g", {}, flyers), a = data.cells[from], b = data.cells[to];
      drawSlot(group, a, states[time].get(from), false);
      const edge = [...group.querySelectorAll("rect")].pop();
      edge.style.stroke = colour(kinds.get(to) ? "adds" : "copies");
      edge.style.strokeWidth = 1.6;
      return {group, dx: b[0] - a[0], dy: b[1] - a[1]};
    });
    const began = performance.now(), takes = 900 / pace;
    const fly = (now) => {
      const t = Math.min((now - began) / takes, 1), at = ease(Math.max(t, 0));
      for (const one of flights) one.group.setAttribute("transform", "translate(" + one.dx * at + " " + one.dy * at + ")");
      if (t < 1) { frame = requestAnimationFrame(fly); return; }
      show(time + 1);
      timer = setTimeout(then, 500 / pace);
    };
    frame = requestAnimationFrame(fly);
  }

  function setPlaying(on) {
    playing = on;
    playButton.textContent = on ? "‖ pause" : "▶ play";
    playButton.setAttribute("aria-label", on ? "pause" : "play");
  }

  function run() {
    if (!playing) return;
    if (time >= last) { setPlaying(false); return; }
    advance(run);
  }

  const actions = {
    play() {
      if (playing) { setPlaying(false); show(time); return; }
      if (time >= last) show(0);
      setPlaying(true);
      run();
    },
    first() { setPlaying(false); show(0); },
    end() { setPlaying(false); show(last); },
    back() { setPlaying(false); show(Math.max(time - 1, 0)); },
    next() {
      setPlaying(false);
      show(time);
      if (time < last) advance(() => {});
    },
  };

  root.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-do]");
    if (button) actions[button.dataset.do]();
  });
  scrub.addEventListener("input", () => { setPlaying(false); show(Number(scrub.value)); });
  root.addEventListener("keydown", (event) => {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || tag === "SELECT") return;
    const key = {" ": "play", ArrowRight: "next", ArrowLeft: "back", Home: "first", End: "end"}[event.key];
    if (!key || (event.key === " " && tag === "BUTTON") || (event.key !== " " && tag === "INPUT")) return;
    event.preventDefault();
    actions[key]();
  });
  show(0);
})
