"use strict";
// The live page of a job. It asks /live again and again and draws what is new. All text
// that comes from the job is set as text, never as HTML. What is drawn by thousands is
// one SVG path for each colour, so that an update costs a few elements.
(() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const KEY = "headrace.key"; // in sessionStorage: this tab, until it is closed

  let slow = null; // who is there; kept while its tag is the same
  let fast = null; // the newest numbers
  let tag = "";
  let chosen = -1; // rank whose details are shown
  let detail = null; // of the chosen one
  let by = "rate";
  let map = null; // how the ranks lie on the picture
  let heard = 0; // when the last answer came
  let failures = 0;
  let fault = ""; // why what came could not be drawn
  let timer = 0;

  // --- small things

  const text = (id, value) => {
    const e = $(id);
    if (e.textContent !== value) e.textContent = value;
  };
  const show = (id, yes) => { if ($(id).hidden === yes) $(id).hidden = !yes; };
  const element = (name, value, kind) => {
    const e = document.createElement(name);
    if (value !== undefined) e.textContent = value;
    if (kind) e.className = kind;
    return e;
  };
  const svg = (name, attributes) => {
    const e = document.createElementNS(SVG, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    return e;
  };
  const group = new Intl.NumberFormat("en");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const number = (v) => group.format(Math.round(v));
  const compact = (v) => v < 1e5 ? number(v) : short.format(v);
  const rate = (v) => v >= 100 ? number(v) : v >= 10 ? v.toFixed(1) : v.toFixed(v === 0 ? 0 : 2);
  const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
  const clock = (t) => new Date(t).toLocaleTimeString("en-GB");
  const ago = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return `${s}\u00a0s`;
    if (s < 3600) return `${Math.floor(s / 60)}\u00a0min`;
    return s < 172800 ? `${Math.floor(s / 3600)}\u00a0h` : `${Math.floor(s / 86400)}\u00a0days`;
  };
  const median = (list) => {
    const s = list.slice().sort((a, b) => a - b);
    return s.length ? s[s.length >> 1] : 0;
  };
  const stored = {
    get() { try { return sessionStorage.getItem(KEY) || ""; } catch { return ""; } },
    set(v) { try { sessionStorage.setItem(KEY, v); } catch { /* it is asked for again */ } },
  };
  let key = stored.get();

  // --- asking

  const every = () => slow && ranksOf(slow) > 1000 ? 2000 : 1000;

  async function poll() {
    clearTimeout(timer);
    if (document.hidden) return; // who does not look does not ask
    let wait = 1000;
    try {
      const ask = new URLSearchParams();
      if (tag) ask.set("have", tag);
      if (chosen >= 0) ask.set("rank", chosen);
      const answer = await fetch("live?" + ask, {
        cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(8000),
        headers: key ? { Authorization: "Bearer " + key } : {},
      });
      if (answer.status === 401) return askForKey();
      if (!answer.ok) throw new Error(`${answer.status}`);
      const doc = await answer.json();
      heard = Date.now();
      failures = 0;
      wait = every();
      taken(doc);
    } catch {
      failures++;
      wait = Math.min(5000, 500 * failures);
    }
    showConnection();
    timer = setTimeout(poll, wait);
  }

  // taken keeps a fault of the page apart from one of the connection.
  function taken(doc) {
    try {
      take(doc);
      fault = "";
    } catch (e) {
      fault = String(e);
    }
  }

  function askForKey() {
    show("key", true);
    text("key-help", key ? "That key was not taken. It is in the file that --metrics-key-file names." :
      "It is in the file that --metrics-key-file names. This tab keeps it until it is closed.");
    setStatus("locked", "warn");
    $("key-text").focus();
  }

  $("key").addEventListener("submit", (e) => {
    e.preventDefault();
    key = $("key-text").value.trim();
    $("key-text").value = "";
    stored.set(key);
    show("key", false);
    poll();
  });
  document.addEventListener("visibilitychange", poll);

  function take(answer) {
    const began = performance.now();
    if (answer.slow) {
      slow = answer.slow;
      tag = answer.tag;
      show("main", true); // a picture needs its width
      place();
    }
    fast = answer.fast;
    detail = answer.rank || null;
    if (slow) draw();
    document.documentElement.dataset.ms = (performance.now() - began).toFixed(1);
  }

  // showConnection says plainly that what is shown is old.
  function showConnection() {
    const lost = failures >= 2 || failures > 0 && !heard;
    document.body.classList.toggle("stale", lost);
    show("lost", lost || Boolean(fault));
    text("lost-head", lost ? "The connection is lost." : "This page has a fault.");
    if (fault && !lost) text("lost-text", `It cannot show what the agent tells: ${fault}. All of it is at /debug/view.`);
    if (!lost) return;
    setStatus("no connection", "bad");
    const why = heard ? `What is shown is from ${clock(heard)}. ` : "";
    text("lost-text", why + "The agent does not answer: it has ended, or the network is down. Trying again.");
  }

  // --- drawing

  const ranksOf = (s) => s.nodes.reduce((n, x) => n + x.ranks.length, 0);

  function setStatus(name, kind) {
    text("status", name);
    $("status").className = "pill " + kind;
  }

  const kinds = { running: "good", over: "good", joining: "warn", waiting: "warn", halted: "bad", "cut off": "bad", ended: "bad" };

  function draw() {
    const { job, agent } = slow;
    document.title = `${job.name}: ${fast.status}`;
    text("job", job.name);
    text("about", [job.mode, agent.name && "seen from " + agent.name, job.plan && "plan " + job.plan.slice(0, 12)].filter(Boolean).join(" · "));
    setStatus(fast.status, kinds[fast.status] || "warn");
    show("reason", Boolean(fast.reason));
    const first = fast.status.charAt(0).toUpperCase() + fast.status.slice(1);
    text("reason-head", first + ":");
    text("reason-text", fast.reason || "");
    $("reason").classList.toggle("bad", kinds[fast.status] === "bad");
    drawTiles();
    drawCoverage();
    drawMap();
    drawRank();
    drawNodes();
    drawEvents();
    text("teller", `headrace ${agent.version} · agent ${agent.id.slice(0, 8) || "-"} at ${agent.address}${agent.witness ? ", a witness" : ""} · up ${ago((Date.parse(fast.time) - Date.parse(agent.began)) / 1000)} · ${count(fast.dropped, "message")} dropped`);
    show("links", !key); // they cannot carry it
  }

  function drawTiles() {
    const { job } = slow, p = fast.progress, world = ranksOf(slow), lost = slow.nodes.filter((n) => n.lost).length;
    text("throughput", rate(fast.samples_per_s));
    spark(fast.history);
    text("epoch", fast.of ? percent(fast.done, fast.of) : "–");
    text("epoch-sub", p.over ? "all epochs are done" : `epoch ${p.epoch}${job.epochs ? ` of 0 to ${job.epochs - 1}` : ""}`);
    if (job.mode === "async") {
      text("pace-name", "To do");
      text("pace", fast.of ? compact(fast.of - fast.done) : "–");
      const s = fast.samples_per_s > 0 ? (fast.of - fast.done) / fast.samples_per_s : 0;
      text("pace-sub", s > 0 ? `positions, about ${ago(s)}` : "positions");
    } else {
      text("pace-name", "Lease");
      text("pace", p.open && !p.halted && !p.over ? number(Math.max(0, p.horizon - p.step)) : "–");
      text("pace-sub", p.halted ? "none while halted" : `steps ahead of step ${number(p.step)}`);
    }
    text("world", number(world));
    text("world-sub", !p.open && job.expect > world ? `${number(job.expect)} are expected` : count(p.redos, "redo"));
    text("members", number(slow.nodes.length));
    text("members-sub", lost ? `${number(lost)} lost by gossip` : `${count(slow.voters, "voter")}, ${number(fast.evicted)} evicted`);
    text("view", slow.since ? number(slow.view) : "–");
    text("view-sub", slow.since ? `for ${ago((Date.parse(fast.time) - Date.parse(slow.since)) / 1000)}${fast.settle_s ? `, settled in ${fast.settle_s.toFixed(1)} s` : ""}` : "none yet");
  }

  const percent = (a, b) => a >= b ? "100 %" : Math.min(99.9, 100 * a / b).toFixed(1) + " %";

  function spark(list) {
    const [area, line] = $("spark").children;
    if (list.length < 2) return;
    const top = Math.max(...list) || 1, step = 120 / (list.length - 1);
    const d = list.map((v, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(30 - 27 * v / top).toFixed(1)}`).join("");
    line.setAttribute("d", d);
    area.setAttribute("d", d + "L120 32L0 32Z");
  }

  // paths draws one path for each class.
  function paths(parent, byClass) {
    for (const name in byClass) {
      let p = parent.querySelector(`:scope > path.${name}`);
      if (!p) parent.append(p = svg("path", { class: name }));
      const d = byClass[name].join("");
      if (p.getAttribute("d") !== d) p.setAttribute("d", d);
    }
    for (const p of parent.querySelectorAll(":scope > path")) {
      if (!byClass[p.getAttribute("class")]) p.remove();
    }
  }

  const box = (x, y, w, h) => `M${x} ${y}h${w}v${h}h${-w}z`;

  function legend(id, list) {
    const ul = $(id), want = JSON.stringify(list);
    if (ul.dataset.now === want) return;
    ul.dataset.now = want;
    ul.replaceChildren(...list.map(([kind, name]) => {
      const li = element("li"), s = svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" });
      s.append(svg("rect", { class: kind, x: 1, y: 1, width: 10, height: 10, rx: 2 }));
      li.append(s, name);
      return li;
    }));
  }

  // drawCoverage draws the epoch as a field that is read like a text: each cell is so many
  // positions, and as full as they are done.
  function drawCoverage() {
    const s = $("coverage"), wide = s.clientWidth > 700, columns = wide ? 96 : 48;
    const known = Boolean(fast.cells), n = known ? fast.cells.length : fast.of ? 1152 : 0;
    const rows = Math.max(1, Math.ceil(n / columns)), size = 10;
    s.setAttribute("viewBox", `0 0 ${columns * size} ${rows * size}`);
    const cells = {}, put = (kind, i) => (cells[kind] ||= []).push(box(i % columns * size, Math.floor(i / columns) * size, size - 1.5, size - 1.5));
    const leased = fast.leased && fast.of ? fast.leased / fast.of * n : 0;
    for (let i = 0; i < n; i++) {
      const v = known ? parseInt(fast.cells[i], 36) : i + 1 <= fast.done / fast.of * n ? 35 : 0;
      if (v === 35) put(known ? "full" : "c2", i);
      else if (v > 0) put("c" + Math.min(4, 1 + Math.floor(v / 9)), i);
      else put(i < leased ? "leased" : "c0", i);
    }
    paths(s, cells);
    text("coverage-text", fast.of ? `epoch ${fast.progress.epoch}: ${number(fast.done)} of ${number(fast.of)} positions are done, ${percent(fast.done, fast.of)}` : "how long an epoch is, is not known here yet");
    const each = n ? Math.max(1, Math.round(fast.of / n)) : 0;
    const list = known ? [["full", `done (a cell is ${count(each, "position")})`], ["c2", "in part"]] : [["c2", "share that is done; which positions, the voters know"]];
    if (leased) list.push(["leased", "may be delivered"]);
    list.push(["c0", "to do"]);
    legend("coverage-legend", n ? list : []);
    const last = slow.last;
    text("digest", last ? `epoch ${last.epoch}: ${number(last.count)} positions${last.digest ? ", digest " + last.digest : ""}` : "");
  }

  // place lays the ranks out: a block for each node, in the order of the view, as large as
  // all fit. It is done anew for a new view, and for a new width.
  function place() {
    const width = Math.max(280, $("map").clientWidth || 1160), nodes = slow.nodes, world = ranksOf(slow);
    const most = Math.max(1, ...nodes.map((n) => n.ranks.length));
    const columns = Math.min(8, most), lines = Math.ceil(most / columns), named = nodes.length <= 64;
    map = null;
    for (let cell = world <= 24 ? 72 : 46; cell >= 3 && !map; cell--) {
      const gap = cell > 8 ? Math.round(10 + cell / 8) : Math.max(2, Math.round(cell / 3)), head = named ? 18 : 0;
      const w = Math.max(columns * cell, named ? 72 : 0), h = lines * cell + head;
      const across = Math.max(1, Math.min(nodes.length, Math.floor((width + gap) / (w + gap))));
      const height = Math.ceil(nodes.length / across) * (h + gap) - gap;
      if (height <= 420 || cell === 3) map = { width, cell, gap, w, h, head, across, columns, named, height: Math.max(height, 24), gapX: gap };
    }
    if (nodes.length > map.across) map.gapX = (width - map.across * map.w) / Math.max(1, map.across - 1); // to the edge
    map.owner = [];
    map.at = [];
    nodes.forEach((n, i) => {
      n.x = Math.round(i % map.across * (map.w + map.gapX));
      n.y = Math.floor(i / map.across) * (map.h + map.gap) + map.head;
      n.first = map.at.length;
      n.ranks.forEach((_, k) => {
        map.owner.push(i);
        map.at.push([n.x + k % columns * map.cell, n.y + Math.floor(k / columns) * map.cell]);
      });
    });
    const s = $("map");
    s.setAttribute("viewBox", `0 0 ${width} ${map.height}`);
    s.setAttribute("height", map.height);
    s.setAttribute("aria-valuemax", Math.max(0, map.at.length - 1));
    s.replaceChildren(svg("g", { id: "cells" }), svg("g", { id: "labels" }), svg("path", { class: "chosen", id: "chosen" }));
    chosen = Math.min(chosen, map.at.length - 1);
    label();
  }

  // label writes the names of nodes, and the numbers of ranks where they fit.
  function label() {
    const put = (kind, x, y, value) => {
      const t = svg("text", { class: kind, x, y });
      t.textContent = value;
      $("labels").append(t);
      return t;
    };
    const room = Math.floor(map.w / 7.2);
    if (map.named) {
      for (const n of slow.nodes) {
        const name = (n.role === "leader" ? "★ " : n.role ? "• " : "") + (n.name || n.id);
        put(n.role ? "label vote" : "label", n.x, n.y - 6, name.length > room ? name.slice(0, room - 1) + "…" : name);
      }
    }
    map.numbers = map.cell < 24 || map.at.length > 256 ? [] : map.at.map(([x, y], r) => put("num", x + (map.cell - 2) / 2, y + (map.cell - 2) / 2 + 4.5, r));
  }

  // stepRate is steps a second of a lockstep job.
  const stepRate = () => fast.of && slow.job.steps ? fast.samples_per_s / fast.of * slow.job.steps : 0;

  // scales say of a rank which class it has, and which classes there are.
  const scales = {
    rate() {
      const known = (fast.rates || []).filter((v) => v >= 0), mid = median(known);
      return {
        kinds: { stalled: "stands still", idle: "no samples now", slower: "below half the median", slow: "below ¾ of it", near: `near the median, ${rate(mid)} samples/s`, fast: "above 1¼ of it", unknown: "not known here", lostrank: "lost by gossip" },
        of(r) {
          const v = fast.rates ? fast.rates[r] : -1;
          if (v < 0) return "unknown";
          if (v === 0) return mid > 0 ? "stalled" : "idle";
          return v < .5 * mid ? "slower" : v < .75 * mid ? "slow" : v > 1.25 * mid ? "fast" : "near";
        },
      };
    },
    lag() {
      const step = Math.max(2, Math.ceil(2 * stepRate()));
      return {
        kinds: { near: `in step, at most ${count(step, "step")} behind`, slow: `at most ${number(4 * step)}`, slower: `at most ${number(16 * step)}`, stalled: "further behind", unknown: "not known here", lostrank: "lost by gossip" },
        of(r, node) {
          const v = fast.lags ? fast.lags[node] : -1;
          if (v < 0) return "unknown";
          return v <= step ? "near" : v <= 4 * step ? "slow" : v <= 16 * step ? "slower" : "stalled";
        },
      };
    },
    role: () => ({
      kinds: { leader: "of the leader", voter: "of a voter", follower: "of another node", lostrank: "lost by gossip" },
      of: (r, node) => slow.nodes[node].role || "follower",
    }),
  };

  // light are the colours on which numbers are dark.
  const light = new Set(["slow", "idle", "unknown", "lostrank", "follower"]);

  function drawMap() {
    if (!map) return;
    const scale = scales[by](), cells = {}, counts = {}, side = map.cell - (map.cell > 8 ? 2 : 1);
    for (let r = 0; r < map.at.length; r++) {
      const node = map.owner[r], kind = slow.nodes[node].lost ? "lostrank" : scale.of(r, node);
      counts[kind] = (counts[kind] || 0) + 1;
      const [x, y] = map.at[r];
      (cells[kind] ||= []).push(box(x, y, side, side));
      const t = map.numbers[r], want = light.has(kind) ? "num dark" : "num";
      if (t && t.getAttribute("class") !== want) t.setAttribute("class", want);
    }
    for (const n of slow.nodes) {
      if (!n.ranks.length) (cells.witness ||= []).push(box(n.x + 1, n.y + 1, Math.max(2, side - 2), Math.max(2, side - 2)));
    }
    paths($("cells"), cells);
    const list = Object.keys(scale.kinds).filter((k) => counts[k]).map((k) => [k, `${scale.kinds[k]}: ${number(counts[k])}`]);
    if (cells.witness) list.push(["witness", `${count(cells.witness.length, "node")} without ranks`]);
    legend("map-legend", list);
    text("ranks-text", summary(counts));
    if (chosen >= 0 && map.at[chosen]) $("chosen").setAttribute("d", box(map.at[chosen][0] - 1, map.at[chosen][1] - 1, side + 2, side + 2));
  }

  // summary says the picture in words.
  function summary(counts) {
    const world = map.at.length, unknown = counts.unknown || 0;
    if (!world) return "No rank is in the job yet.";
    const parts = [`${count(world, "rank")} on ${count(slow.nodes.length, "node")}`];
    if (by === "rate" && fast.rates) {
      const known = fast.rates.map((v, r) => [v, r]).filter(([v]) => v >= 0);
      const [v, r] = known.reduce((a, b) => b[0] < a[0] ? b : a, known[0] || [0, 0]);
      if (known.length && known.every(([x]) => x === 0)) parts.push("no samples are delivered now");
      else if (known.length > 1) parts.push(`slowest is rank ${r} with ${rate(v)} samples/s`);
    }
    if (unknown && by === "rate") parts.push(`of ${count(unknown, "rank")} only ${slow.job.mode === "async" ? "the voters" : "their own agents"} know the throughput`);
    if (unknown && by === "lag") parts.push(slow.job.mode === "async" ? "ranks of an async job need not keep step" : `how far each node is, the leader knows${slow.leader ? ": " + slow.leader : ""}`);
    return parts.join("; ") + ".";
  }

  function rankText(r) {
    const i = map.owner[r], n = slow.nodes[i], parts = [`Rank ${r}`, `node ${n.name || n.id}, local rank ${n.ranks[r - n.first]}`];
    const v = fast.rates ? fast.rates[r] : -1;
    parts.push(v >= 0 ? `${rate(v)} samples/s` : "throughput not known here");
    if (fast.lags && fast.lags[i] >= 0) parts.push(`${count(fast.lags[i], "step")} behind`);
    if (n.lost) parts.push("lost by gossip");
    return parts.join(" · ");
  }

  function drawRank() {
    const there = map && chosen >= 0 && chosen < map.at.length;
    show("rank", Boolean(there));
    if (!there) return;
    const s = $("map"), more = detail && detail.rank === chosen ? detail : null;
    let line = rankText(chosen);
    if (more && more.left !== undefined) line += ` · ${count(more.left, "position")} to do`;
    if (more && more.pid) line += ` · process ${more.pid}`;
    text("rank-text", line);
    s.setAttribute("aria-valuenow", chosen);
    if (s.getAttribute("aria-valuetext") !== line) s.setAttribute("aria-valuetext", line);
    const stats = more && more.stats ? Object.entries(more.stats).sort() : [];
    show("rank-more", stats.length > 0);
    const dl = $("rank-stats");
    while (dl.children.length > stats.length) dl.lastChild.remove();
    stats.forEach(([name, value], i) => {
      let row = dl.children[i];
      if (!row) {
        row = element("div");
        row.append(element("dt"), element("dd"));
        dl.append(row);
      }
      row.children[0].textContent = name.replaceAll("_", " ");
      row.children[1].textContent = Math.abs(value) < 100 && value % 1 ? value.toFixed(2) : number(value);
    });
  }

  const mostRows = 50;

  function drawNodes() {
    const async = slow.job.mode === "async", behind = async ? fast.left : fast.lags, want = $("find").value.trim().toLowerCase();
    text("behind-head", async ? "To do" : "Behind");
    let list = slow.nodes.map((n, i) => {
      let sum = -1;
      if (fast.rates) for (let k = 0; k < n.ranks.length; k++) if (fast.rates[n.first + k] >= 0) sum = Math.max(0, sum) + fast.rates[n.first + k];
      return { n, sum, each: n.ranks.length && sum >= 0 ? sum / n.ranks.length : Infinity, behind: behind ? behind[i] : -1 };
    });
    if (want) list = list.filter(({ n }) => [n.name, n.rack || "", n.address, n.id, n.role || ""].some((v) => v.toLowerCase().includes(want)));
    const found = list.length;
    if (found > mostRows) { // those that want a look come first
      list.sort((a, b) => (b.n.lost || 0) - (a.n.lost || 0) || (async ? 0 : b.behind - a.behind) || a.each - b.each);
      list.length = mostRows;
    }
    const body = $("nodes");
    while (body.children.length > list.length) body.lastChild.remove();
    list.forEach(({ n, sum, behind: b }, i) => {
      let tr = body.children[i];
      if (!tr) {
        tr = element("tr");
        const name = element("th");
        name.scope = "row";
        tr.append(name, element("td"), element("td"), element("td"), element("td", "", "n"), element("td", "", "n"), element("td"), element("td", "", "mono"));
        body.append(tr);
      }
      const ranks = n.ranks.length ? n.ranks.length === 1 ? `${n.first}` : `${n.first} to ${n.first + n.ranks.length - 1}` : "none";
      [n.name || n.id, n.rack || "–", n.role || "–", ranks, sum >= 0 ? rate(sum) : "–", b >= 0 ? number(b) : "–", n.lost ? "lost" : "alive", n.address].forEach((v, k) => {
        if (tr.children[k].textContent !== v) tr.children[k].textContent = v;
      });
      tr.children[0].title = n.id;
      tr.className = n.lost ? "gone" : "";
    });
    text("nodes-text", found > mostRows ? `${mostRows} of ${number(found)} nodes: those that lag or are slow first. Find looks through all.` : want ? `${number(found)} of ${count(slow.nodes.length, "node")}.` : "");
  }

  function drawEvents() {
    const list = slow.events || [], ol = $("events"), last = list.length ? list[list.length - 1].time + list.length : "";
    show("events-none", !list.length);
    if (ol.dataset.last === last) return;
    ol.dataset.last = last;
    ol.replaceChildren(...list.slice().reverse().map((e) => {
      const li = element("li"), t = element("time", clock(e.time));
      t.dateTime = e.time;
      li.append(t, element("b", e.kind), element("span", e.text));
      return li;
    }));
  }

  // --- choosing a rank

  function choose(r) {
    if (!map || !map.at.length) return;
    chosen = Math.max(0, Math.min(map.at.length - 1, r));
    drawMap();
    drawRank();
  }

  $("map").addEventListener("keydown", (e) => {
    const row = map ? map.columns : 1;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, PageDown: 10 * row, PageUp: -10 * row }[e.key];
    if (by) choose(Math.max(0, chosen) + by);
    else if (e.key === "Home") choose(0);
    else if (e.key === "End") choose(Infinity);
    else return;
    e.preventDefault();
  });
  $("map").addEventListener("focus", () => { if (chosen < 0) choose(0); });

  function under(e) {
    const r = $("map").getBoundingClientRect(), x = (e.clientX - r.left) * map.width / r.width, y = (e.clientY - r.top) * map.height / r.height;
    const column = Math.floor(x / (map.w + map.gapX)), line = Math.floor(y / (map.h + map.gap));
    const n = column >= 0 && column < map.across ? slow.nodes[line * map.across + column] : null;
    if (!n) return -1;
    const cx = Math.floor((x - n.x) / map.cell), cy = Math.floor((y - n.y) / map.cell), k = cy * map.columns + cx;
    return cx >= 0 && cx < map.columns && cy >= 0 && k < n.ranks.length ? n.first + k : -1;
  }

  for (const kind of ["pointermove", "pointerdown"]) {
    $("map").addEventListener(kind, (e) => {
      const r = map ? under(e) : -1;
      if (r >= 0 && r !== chosen) choose(r);
    });
  }

  for (const input of document.querySelectorAll("input[name=by]")) {
    input.addEventListener("change", () => {
      by = input.value;
      if (fast) drawMap();
    });
  }
  $("find").addEventListener("input", () => { if (fast) drawNodes(); });
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      if (!fast) return;
      place();
      draw();
    }, 100);
  });

  poll();
})();
