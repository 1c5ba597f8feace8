// The library's CostModel.estimate, from the saved form of the model: src/busbw/core/cost_model.py is the original,
// and a test compares the two over many calls.

/** Forms of T(S): see src/busbw/core/cost_form.py. */
const FORMS = {
  overlap: {
    seconds({ launch_s, s_per_byte, sharpness }, size) {
      const wire = size * s_per_byte;
      const least = Math.min(launch_s, wire);
      const most = Math.max(launch_s, wire);
      return least <= 0 ? most : most * Math.exp(Math.log1p((least / most) ** sharpness) / sharpness);
    },
    gradient(form, size) {
      const wire = size * form.s_per_byte;
      if (form.launch_s <= 0 || form.s_per_byte <= 0) return [1];
      const count = form.sharpness === 1 ? 2 : 3;
      if (wire <= 0) return [1, 0, 0].slice(0, count);
      const logLaunch = Math.log(form.launch_s);
      const logWire = Math.log(wire);
      const share = 1 / (1 + Math.exp(Math.min(Math.max(form.sharpness * (logLaunch - logWire), -700), 700)));
      const bySharpness = (1 - share) * logLaunch + share * logWire - Math.log(this.seconds(form, size));
      return [1 - share, share, bySharpness].slice(0, count);
    },
  },
  power: {
    seconds: ({ seconds_at, at_bytes, exponent }, size) => seconds_at * (size / at_bytes) ** exponent,
    gradient: ({ at_bytes }, size) => [1, Math.log(Math.max(size, 1) / at_bytes)],
  },
};
const WIDEST = 5;

function formSeconds(piece, size) {
  return FORMS[piece.form.kind].seconds(piece.form, size);
}

/** Low and high of T at S. */
function pieceBounds(piece, size) {
  const gradient = FORMS[piece.form.kind].gradient(piece.form, size);
  let variance = 0;
  gradient.forEach((a, i) => gradient.forEach((b, j) => { variance += a * b * piece.covariance[i][j]; }));
  variance += piece.scatter ** 2;
  const width = Math.exp(Math.min(piece.quantile * Math.sqrt(Math.max(variance, 0)), WIDEST));
  const seconds = formSeconds(piece, size);
  return [seconds / width, seconds * width];
}

/** One curve: T over S for an op, N and settings. */
class Curve {
  constructor(data) {
    Object.assign(this, data);
    this.least = data.pieces[0].least_bytes;
    this.most = data.pieces[data.pieces.length - 1].most_bytes;
    const tail = data.tails[0].form;
    this.perByte = tail.kind === "overlap" ? tail.s_per_byte : 0;
    this.points = data.pieces.reduce((sum, piece) => sum + piece.points, 0);
  }

  /** Seconds, low and high. */
  at(size) {
    const [seconds, low, high] = size < this.least ? this.before(size) : size > this.most ? this.beyond(size) : this.inside(size);
    return [seconds, Math.min(low, seconds), Math.max(high, seconds)];
  }

  inside(size) {
    const index = this.pieces.findIndex((piece) => size <= piece.most_bytes);
    const piece = this.pieces[index];
    const [least, most] = this.levels[index];
    if (size >= piece.least_bytes) {
      return [Math.min(Math.max(formSeconds(piece, size), least), most), ...pieceBounds(piece, size)];
    }
    const before = this.pieces[index - 1];
    const share = Math.log(size / before.most_bytes) / Math.log(piece.least_bytes / before.most_bytes);
    const seconds = this.levels[index - 1][1] ** (1 - share) * least ** share;
    const ends = [pieceBounds(before, size), pieceBounds(piece, size)];
    return [seconds, Math.min(ends[0][0], ends[1][0]), Math.max(ends[0][1], ends[1][1])];
  }

  before(size) {
    const head = this.regimes[0];
    const [low] = pieceBounds(head, size);
    const [, high] = pieceBounds(this.pieces[0], this.least);
    return [Math.min(formSeconds(head, size), this.levels[0][0]), low, high];
  }

  beyond(size) {
    const ends = this.tails.map((tail) => pieceBounds(tail, size));
    const most = this.levels[this.levels.length - 1][1];
    const seconds = Math.max(formSeconds(this.tails[0], size), most);
    return [seconds, Math.min(...ends.map((end) => end[0])), Math.max(...ends.map((end) => end[1]))];
  }

  outside(size) {
    if (size < this.least) return [`S is below the smallest measured size, ${formatSize(this.least)}`];
    return size > this.most ? [`S is above the largest measured size, ${formatSize(this.most)}`] : [];
  }

  estimate(size, reasons) {
    const [seconds, low, high] = this.at(size);
    const bandwidth = Math.min(size * this.perByte, seconds);
    return { seconds, low, high, latency: seconds - bandwidth, bandwidth, extrapolates: [...reasons, ...this.outside(size)] };
  }
}

const LAWS = { constant: () => 0, steps: (n) => n - 1, log2: (n) => Math.log2(n) };
const FACTORS = { 1: () => 1, "(N-1)/N": (n) => (n - 1) / n, "2(N-1)/N": (n) => (2 * (n - 1)) / n };

function lawRatio(law, n, reference) {
  const at = (world) => law.base + law.slope * LAWS[law.name](world);
  return at(reference) > 0 && at(n) > 0 ? at(n) / at(reference) : 1;
}

/** Prices calls. `factors` names the bus factor of each op. */
class CostModel {
  constructor(data, factors) {
    this.curves = data.curves.map((curve) => new Curve(curve));
    this.scalings = data.scalings;
    this.factors = factors;
  }

  get ops() {
    return [...new Set(this.curves.map((curve) => curve.collective))];
  }

  /** Groups of settings of an op: text -> {N: curve}, in the order of the curves. */
  groups(op) {
    const groups = new Map();
    for (const curve of this.curves.filter((each) => each.collective === op)) {
      const key = settingsText(curve.settings);
      if (!groups.has(key)) groups.set(key, new Map());
      groups.get(key).set(curve.world_size, curve);
    }
    return groups;
  }

  /** bus factor of an op at N. */
  factor(op, n) {
    return FACTORS[this.factors[op]](n);
  }

  /** The price of one call in seconds; `group` (a text of `groups`) chooses among settings. */
  estimate(op, n, size, group = null) {
    if (n === 1) {
      const why = "N = 1: nothing moves between ranks; no time is counted";
      return { seconds: 0, low: 0, high: 0, latency: 0, bandwidth: 0, extrapolates: [why] };
    }
    const byWorld = this.group(op, n, group);
    if (byWorld.has(n)) return byWorld.get(n).estimate(size, []);
    const worlds = [...byWorld.keys()].sort((a, b) => a - b);
    const last = worlds[worlds.length - 1];
    if (worlds[0] < n && n < last) {
      const below = Math.max(...worlds.filter((world) => world < n));
      const above = Math.min(...worlds.filter((world) => world > n));
      return between(byWorld.get(below), byWorld.get(above), n, size);
    }
    return this.beyond(byWorld.get(n < worlds[0] ? worlds[0] : last), n, size);
  }

  /** The settings that fit a call best: those with its N, then those with the most points. */
  group(op, n, chosen) {
    const groups = this.groups(op);
    if (groups.size === 0) throw new Error(`the cost model has no ${op}`);
    if (chosen !== null && groups.has(chosen)) return groups.get(chosen);
    let best = null;
    let merit = [-1, -1];
    for (const group of groups.values()) {
      const points = [...group.values()].reduce((sum, curve) => sum + curve.points, 0);
      const own = [Number(group.has(n)), points];
      if (own[0] > merit[0] || (own[0] === merit[0] && own[1] > merit[1])) [best, merit] = [group, own];
    }
    return best;
  }

  /** T_N(S) = l T(S w / l): the floor of the nearest N grown by l, the wire's seconds per byte by w. */
  beyond(curve, n, size) {
    const key = settingsText(curve.settings);
    const scaling = this.scalings.find((each) => each.collective === curve.collective && settingsText(each.settings) === key);
    const none = [{ name: "constant", base: 1, slope: 0 }];
    const reference = this.factor(curve.collective, curve.world_size);
    const byVolume = reference ? this.factor(curve.collective, n) / reference : 1;
    const found = [];
    for (const launch of scaling ? scaling.launch : none) {
      for (const wire of scaling ? scaling.wire : none) {
        const grown = lawRatio(launch, n, curve.world_size);
        const slowed = byVolume * lawRatio(wire, n, curve.world_size);
        const one = curve.estimate((size * slowed) / grown, []);
        found.push({ seconds: grown * one.seconds, low: grown * one.low, high: grown * one.high, latency: grown * one.latency });
      }
    }
    const { seconds, latency } = found[0];
    const far = `N = ${n} was not measured: scaled from N = ${curve.world_size}; a jump of the latency is not foreseen`;
    return {
      seconds,
      low: Math.min(...found.map((each) => each.low)),
      high: Math.max(...found.map((each) => each.high)),
      latency,
      bandwidth: seconds - latency,
      extrapolates: [far, ...curve.outside(size)],
    };
  }
}

/** Between two N: evenly in log T over log N. */
function between(below, above, n, size) {
  const share = Math.log(n / below.world_size) / Math.log(above.world_size / below.world_size);
  const [first, second] = [below.estimate(size, []), above.estimate(size, [])];
  const mix = (a, b) => (a > 0 && b > 0 ? a ** (1 - share) * b ** share : 0);
  const seconds = mix(first.seconds, second.seconds);
  const bandwidth = Math.min(mix(first.bandwidth, second.bandwidth), seconds);
  const middle = `N = ${n} was not measured: between N = ${below.world_size} and ${above.world_size}`;
  return {
    seconds,
    low: Math.min(first.low, second.low, seconds),
    high: Math.max(first.high, second.high, seconds),
    latency: seconds - bandwidth,
    bandwidth,
    extrapolates: [middle, ...new Set([...first.extrapolates, ...second.extrapolates])],
  };
}

function settingsText(settings) {
  return Object.keys(settings).sort().map((name) => `${name}=${settings[name]}`).join("  ");
}
