// Small charts as SVG: curves with bands, a histogram, the periodic table, a bar of shares.
'use strict'
;(() => {
  const A = window.anchor
  const COLORS = ['var(--c1)', 'var(--c2)', 'var(--c3)', 'var(--c4)', 'var(--c5)', 'var(--c6)']
  const NARROW = 480 // px: fewer ticks below
  const ASIDE = 8 // px between single points at one place

  // About n round numbers that cover low…high.
  function ticks(low, high, n) {
    const span = high - low || 1
    const rough = span / n
    const power = 10 ** Math.floor(Math.log10(rough))
    const step = [1, 2, 2.5, 5, 10].find((f) => f * power >= rough) * power
    const found = []
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * span; v += step) found.push(v)
    return found
  }
  const short = (v) => (Math.abs(v) >= 1000 ? `${+(v / 1000).toFixed(1)}k` : `${+v.toFixed(3)}`)

  function frame(width, height, x, y, { xLabel, yLabel, yText }) {
    const left = 50, right = 10, top = 8, bottom = 38
    const px = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (width - left - right)
    const py = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom)
    const svg = A.svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'chart' })
    for (const v of ticks(y[0], y[1], 4)) {
      svg.append(
        A.svg('line', { x1: left, x2: width - right, y1: py(v), y2: py(v), class: 'grid' }),
        A.svg('text', { x: left - 6, y: py(v) + 4, 'text-anchor': 'end' }, yText(v)),
      )
    }
    for (const v of ticks(x[0], x[1], width < NARROW ? 4 : 7)) {
      svg.append(A.svg('text', { x: px(v), y: height - bottom + 16, 'text-anchor': 'middle' }, short(v)))
    }
    svg.append(
      A.svg('text', { x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle', class: 'axis' }, xLabel),
      A.svg('text', { x: 2, y: 0, class: 'axis', transform: `translate(10 ${(height - bottom + top) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, yLabel),
    )
    return { svg, px, py, left, right, top, bottom }
  }

  // Curves with 95 % bands. series: [{name, structures, value, low, high, trials}], missing values are null.
  // The axis reaches `until` at least. The legend stands above the curves, and tells the values under the pointer.
  A.lineChart = (host, { series, xLabel, yLabel, percent = false, target = null, steps = false, until = 1 }) => {
    const scale = percent ? 100 : 1
    const hidden = new Set()
    const legend = A.el('div', { class: 'legend' })
    const box = A.el('div', { class: 'plot' })
    host.replaceChildren(legend, box)
    const text = (v) => (v === null || v === undefined ? '' : percent ? `${(100 * v).toFixed(1)} %` : short(v))
    const items = series.map((one, i) => {
      const value = A.el('span', { class: 'value' })
      const button = A.el(
        'button',
        { type: 'button', class: 'key', 'aria-pressed': 'true', onclick: () => toggle(i) },
        A.el('i', { style: `background:${COLORS[i % 6]}` }), one.name, value,
      )
      legend.append(button)
      return { button, value }
    })
    function toggle(i) {
      hidden.has(i) ? hidden.delete(i) : hidden.add(i)
      items[i].button.setAttribute('aria-pressed', String(!hidden.has(i)))
      draw(box.clientWidth)
    }
    function draw(width) {
      const height = Math.max(190, Math.min(280, width * 0.42))
      const seen = series.filter((_, i) => !hidden.has(i))
      const ys = seen.flatMap((s) => [...(s.high || []), ...(s.low || []), ...s.value]).filter((v) => v !== null && v !== undefined)
      const xs = series.flatMap((s) => s.structures)
      if (target !== null) ys.push(target)
      const low = Math.min(0, ...ys), high = Math.max(...ys, low + 1e-6)
      const end = Math.max(...xs, until)
      const f = frame(width, height, [0, end], [low * scale, high * scale * 1.04], {
        xLabel, yLabel, yText: (v) => (percent ? `${short(v)}%` : short(v)),
      })
      if (target !== null) {
        const y = f.py(target * scale)
        f.svg.append(A.svg('line', { x1: f.left, x2: width - f.right, y1: y, y2: y, class: 'target' }))
      }
      // points that stand for a whole run each would hide one another
      const single = series.length > 1 && series.every((one) => one.structures.length === 1)
      series.forEach((one, i) => {
        if (hidden.has(i)) return
        const px = (x) => f.px(x) + (single ? ASIDE * (i - (series.length - 1) / 2) : 0)
        const points = one.structures.map((x, k) => [x, one.value[k], one.low?.[k], one.high?.[k]]).filter((p) => p[1] !== null)
        const band = points.filter((p) => p[2] !== null && p[2] !== undefined && p[3] !== null)
        if (band.length > 1) {
          const path = [...band.map((p) => `${f.px(p[0])},${f.py(p[3] * scale)}`), ...band.reverse().map((p) => `${f.px(p[0])},${f.py(p[2] * scale)}`)]
          f.svg.append(A.svg('polygon', { points: path.join(' '), fill: COLORS[i % 6], class: 'band' }))
        } else if (band.length === 1) {
          const [x, , a, b] = band[0]
          f.svg.append(A.svg('line', { x1: px(x), x2: px(x), y1: f.py(a * scale), y2: f.py(b * scale), stroke: COLORS[i % 6], class: 'whisker' }))
        }
        const line = []
        points.forEach((p, k) => {
          if (steps && k) line.push(`${f.px(p[0])},${f.py(points[k - 1][1] * scale)}`)
          line.push(`${f.px(p[0])},${f.py(p[1] * scale)}`)
        })
        f.svg.append(A.svg('polyline', { points: line.join(' '), stroke: COLORS[i % 6], class: 'curve' }))
        if (points.length <= 40)
          for (const p of points) f.svg.append(A.svg('circle', { cx: px(p[0]), cy: f.py(p[1] * scale), r: 2.5, fill: COLORS[i % 6] }))
      })
      const guide = A.svg('line', { y1: f.top, y2: height - f.bottom, class: 'guide', visibility: 'hidden' })
      f.svg.append(guide)
      f.svg.addEventListener('pointermove', (event) => {
        const at = ((event.clientX - f.svg.getBoundingClientRect().left - f.left) / (width - f.left - f.right)) * end
        let shown = null
        series.forEach((one, i) => {
          let k = -1
          one.structures.forEach((x, n) => {
            if (steps ? x <= at : k < 0 || Math.abs(x - at) < Math.abs(one.structures[k] - at)) k = n
          })
          items[i].value.textContent = k < 0 || hidden.has(i) ? '' : ` ${text(one.value[k])}${one.trials?.[k] ? ` of ${one.trials[k]}` : ''}`
          if (k >= 0) shown = one.structures[k]
        })
        if (shown === null) return
        const x = steps ? f.px(Math.max(0, Math.min(end, at))) : f.px(shown)
        guide.setAttribute('x1', x)
        guide.setAttribute('x2', x)
        guide.setAttribute('visibility', 'visible')
      })
      f.svg.addEventListener('pointerleave', () => {
        guide.setAttribute('visibility', 'hidden')
        items.forEach((item) => (item.value.textContent = ''))
      })
      box.replaceChildren(f.svg)
    }
    A.onWidth(box, draw)
  }

  // Energies above the hull: on it, near, far.
  A.histogram = (host, { edges, counts }, limits) => {
    const box = A.el('div', { class: 'plot' })
    const total = counts.reduce((a, b) => a + b, 0)
    const sum = (from, to) => counts.reduce((n, c, i) => n + (edges[i + 1] <= to + 1e-9 && edges[i + 1] > from + 1e-9 ? c : 0), 0)
    const parts = [
      ['find', 'on or below the hull', sum(-Infinity, limits.stable)],
      ['near', `up to ${limits.metastable} above`, sum(limits.stable, limits.metastable)],
      ['far', 'higher', sum(limits.metastable, Infinity)],
    ]
    const legend = A.el('div', { class: 'legend' }, ...parts.map(([name, words, n]) =>
      A.el('span', { class: 'key' }, A.el('i', { style: `background:var(--${name})` }), `${words}: `, A.el('b', {}, A.count(n)))))
    host.replaceChildren(legend, box)
    const first = Math.max(0, counts.findIndex((c) => c > 0) - 1)
    const last = Math.min(counts.length, counts.length - [...counts].reverse().findIndex((c) => c > 0) + 1)
    A.onWidth(box, (width) => {
      if (!total) return box.replaceChildren(A.el('p', { class: 'note' }, 'No candidate has an energy above the hull.'))
      const height = Math.max(180, Math.min(240, width * 0.4))
      const f = frame(width, height, [edges[first], edges[last]], [0, Math.max(...counts) * 1.05], {
        xLabel: 'eV/atom above the hull', yLabel: 'valid candidates', yText: short,
      })
      for (let i = first; i < last; i++) {
        const kind = edges[i + 1] <= limits.stable + 1e-9 ? 'find' : edges[i + 1] <= limits.metastable + 1e-9 ? 'near' : 'far'
        const x = f.px(edges[i])
        const more = i === 0 ? ' or less' : i === counts.length - 1 ? ' or more' : ''
        f.svg.append(A.svg('rect', {
          x: x + 0.5, y: f.py(counts[i]), width: Math.max(1, f.px(edges[i + 1]) - x - 1), height: height - f.bottom - f.py(counts[i]),
          fill: `var(--${kind})`,
        }, A.svg('title', {}, `${edges[i]} to ${edges[i + 1]} eV/atom${more}: ${counts[i]}`)))
      }
      box.replaceChildren(f.svg)
    })
  }

  // Where the time went.
  A.timeBar = (host, seconds) => {
    const parts = Object.entries(seconds).filter(([, s]) => s > 0)
    const total = parts.reduce((n, [, s]) => n + s, 0)
    if (!total) return host.replaceChildren(A.el('p', { class: 'note' }, 'No time was recorded.'))
    const human = (s) => (s >= 5400 ? `${(s / 3600).toFixed(1)} h` : s >= 90 ? `${(s / 60).toFixed(1)} min` : `${s.toFixed(s < 10 ? 1 : 0)} s`)
    const color = (i) => (i < 6 ? COLORS[i] : 'var(--far)')
    host.replaceChildren(
      A.el('p', {}, `${human(total)} in all.`),
      A.el('div', { class: 'bar' }, ...parts.map(([name, s], i) =>
        A.el('i', { style: `width:${(100 * s) / total}%;background:${color(i)}`, title: `${name}: ${human(s)}` }))),
      A.el('div', { class: 'legend' }, ...parts.map(([name, s], i) =>
        A.el('span', { class: 'key' }, A.el('i', { style: `background:${color(i)}` }), `${name} `, A.el('b', {}, `${A.percent(s / total)}`), ` ${human(s)}`))),
    )
  }

  const ROWS = [
    'H                                                                   He',
    'Li  Be                                          B   C   N   O   F   Ne',
    'Na  Mg                                          Al  Si  P   S   Cl  Ar',
    'K   Ca  Sc  Ti  V   Cr  Mn  Fe  Co  Ni  Cu  Zn  Ga  Ge  As  Se  Br  Kr',
    'Rb  Sr  Y   Zr  Nb  Mo  Tc  Ru  Rh  Pd  Ag  Cd  In  Sn  Sb  Te  I   Xe',
    'Cs  Ba  La  Hf  Ta  W   Re  Os  Ir  Pt  Au  Hg  Tl  Pb  Bi  Po  At  Rn',
    'Fr  Ra  Ac',
    '            Ce  Pr  Nd  Pm  Sm  Eu  Gd  Tb  Dy  Ho  Er  Tm  Yb  Lu',
    '            Th  Pa  U   Np  Pu  Am  Cm  Bk  Cf  Es  Fm  Md  No  Lr',
  ]
  // Where each element stands, from 1; a free row above the lanthanides.
  A.places = () => ROWS.flatMap((line, row) => Array.from({ length: 18 }, (_, column) => (
    { symbol: line.slice(4 * column, 4 * column + 4).trim(), row: row + 1 + (row > 6 ? 1 : 0), column: column + 1 }
  ))).filter(({ symbol }) => symbol)
  const SHOWS = {
    sun: ['new and on the hull', (c) => c[2]],
    msun: ['new and near the hull', (c) => c[1]],
    rate: ['share on the hull', (c) => (c[0] >= 10 ? c[2] / c[0] : null)],
    tried: ['tried', (c) => c[0]],
  }
  // {symbol: [tried, MSUN, SUN]}; a click on an element calls choose(symbol).
  A.periodicTable = (host, elements, { choose = null, chosen = () => new Set(), show = 'sun' } = {}) => {
    const grid = A.el('div', { class: 'ptable' })
    const head = A.el('div', { class: 'tabs', role: 'group', 'aria-label': 'What the colours show' })
    const note = A.el('p', { class: 'note' })
    let mode = show
    const cells = new Map()
    for (const [name, [words]] of Object.entries(SHOWS))
      head.append(A.el('button', { type: 'button', 'data-mode': name, onclick: () => paint((mode = name)) }, words))
    for (const { symbol, row, column } of A.places()) {
      const cell = A.el(choose ? 'button' : 'div', {
        type: choose ? 'button' : null, style: `grid-row:${row};grid-column:${column}`,
        'data-element': symbol, onclick: choose ? () => (choose(symbol), paint()) : null,
      }, symbol)
      cells.set(symbol, cell)
      grid.append(cell)
    }
    function paint() {
      const [words, value] = SHOWS[mode]
      const most = Math.max(...Object.values(elements).map((c) => value(c) ?? 0), 1e-9)
      const picked = chosen()
      for (const [symbol, cell] of cells) {
        const counts = elements[symbol]
        const v = counts ? value(counts) : null
        cell.className = !counts ? 'untried' : v === null ? 'few' : ''
        cell.style.setProperty('--heat', counts && v !== null ? `${Math.round(8 + 82 * Math.sqrt(v / most))}%` : '0%')
        if (counts && !v) cell.style.setProperty('--heat', '3%')
        cell.classList.toggle('hot', Boolean(counts && v / most > 0.3))
        cell.classList.toggle('picked', picked.has(symbol))
        cell.title = counts
          ? `${symbol}: ${counts[0]} tried, ${counts[1]} new and near the hull, ${counts[2]} of them on it`
          : `${symbol}: not tried`
      }
      for (const button of head.children) button.setAttribute('aria-pressed', String(button.dataset.mode === mode))
      const top = mode === 'rate' ? A.percent(most) : A.count(most)
      note.textContent = `${words}: strongest colour: ${top}. Hatched: not tried${mode === 'rate' ? ' or fewer than ten times' : ''}.${choose ? ' Click elements to filter the table.' : ''}`
    }
    paint()
    host.replaceChildren(head, grid, note)
    return paint
  }
})()
