// Hull diagrams around a find: energy over composition (two elements) or the triangle from above (three).
'use strict'
;(() => {
  const A = window.anchor

  function overlaps(box, taken) {
    return taken.some((b) => box.x < b.x + b.w && b.x < box.x + box.w && box.y < b.y + b.h && b.y < box.y + box.h)
  }
  // Labels in order of importance; one that finds no free place is left to the tooltip of its point.
  function label(svg, taken, x, y, text, width, height, cls = '') {
    const w = 6.2 * text.length + 4, h = 14
    for (const [dx, dy] of [[8, 4], [-8 - w, 4], [-w / 2, -8], [-w / 2, 18], [8, -8], [-8 - w, 18]]) {
      const box = { x: x + dx, y: y + dy - 11, w, h }
      if (box.x < 0 || box.x + w > width || box.y < 0 || box.y + h > height || overlaps(box, taken)) continue
      taken.push(box)
      svg.append(A.svg('text', { x: x + dx, y: y + dy, class: `phase ${cls}` }, ...subscripts(text)))
      return
    }
  }
  // SVG has no <sub>: digits are lowered, and what follows is raised again.
  function subscripts(text) {
    let low = false
    return String(text).split(/(\d+)/).filter(Boolean).map((part) => {
      const digit = /^\d/.test(part)
      const dy = digit && !low ? 3 : !digit && low ? -3 : 0
      low = digit
      return A.svg('tspan', { dy, 'font-size': digit ? '0.78em' : null }, part)
    })
  }
  const diamond = (x, y, r) => `${x},${y - r} ${x + r},${y} ${x},${y + r} ${x - r},${y}`

  function points(svg, places, width, height) {
    const taken = places.map((p) => ({ x: p.x - 5, y: p.y - 5, w: 10, h: 10 }))
    for (const p of places) {
      const title = A.svg('title', {}, p.title)
      svg.append(
        p.kind === 'phase'
          ? A.svg('circle', { cx: p.x, cy: p.y, r: 4, class: p.filled ? 'filled' : 'known' }, title)
          : A.svg('polygon', { points: diamond(p.x, p.y, p.kind === 'chosen' ? 8 : 5), class: p.kind }, title),
      )
    }
    const order = ['chosen', 'phase', 'other']
    for (const p of [...places].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || b.rank - a.rank))
      label(svg, taken, p.x, p.y, p.name, width, height, p.kind)
  }

  function binary(width, system, diagram, marks) {
    const height = Math.max(220, Math.min(300, width * 0.6))
    const left = 48, right = 26, top = 16, bottom = 40
    const energies = [...diagram.phases.map((p) => p[2]), ...marks.map((m) => m.energy)]
    const low = Math.min(...energies, -0.01) * 1.12, high = Math.max(0, ...energies) + 0.04 * -low
    const px = (x) => left + x * (width - left - right)
    const py = (e) => top + ((high - e) / (high - low)) * (height - top - bottom)
    const svg = A.svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'chart hull' })
    const step = [0.05, 0.1, 0.2, 0.5, 1, 2].find((s) => (high - low) / s < 7) || 5
    for (let e = Math.ceil(low / step) * step; e <= high + 1e-9; e += step)
      svg.append(
        A.svg('line', { x1: left, x2: width - right, y1: py(e), y2: py(e), class: 'grid' }),
        A.svg('text', { x: left - 6, y: py(e) + 4, 'text-anchor': 'end' }, (+e.toFixed(2)).toString().replace('-', '−')),
      )
    for (const [i, j] of diagram.lines) {
      const [a, b] = [diagram.phases[i], diagram.phases[j]]
      svg.append(A.svg('line', { x1: px(a[0][1]), y1: py(a[2]), x2: px(b[0][1]), y2: py(b[2]), class: 'tie' }))
    }
    svg.append(
      A.svg('text', { x: left, y: height - 8, 'text-anchor': 'middle', class: 'corner' }, system[0]),
      A.svg('text', { x: width - right, y: height - 8, 'text-anchor': 'middle', class: 'corner' }, system[1]),
      A.svg('text', { class: 'axis', 'text-anchor': 'middle', transform: `translate(12 ${(top + height - bottom) / 2}) rotate(-90)` }, 'formation, eV/atom'),
    )
    points(svg, [
      ...diagram.phases.filter((p) => p[0].every((x) => x < 1)).map((p) => ({
        x: px(p[0][1]), y: py(p[2]), name: p[1], filled: p[3], kind: 'phase', rank: -p[2],
        title: `${p[1]}, ${A.energy(p[2])} eV/atom${p[3] ? ', made by the potential' : ''}`,
      })),
      ...marks.map((m) => ({ ...m, x: px(m.fractions[1]), y: py(m.energy), rank: 0 })),
    ], width, height)
    return svg
  }

  function ternary(width, system, diagram, marks) {
    const side = Math.min(width - 60, 400)
    const height = side * 0.866 + 60
    const corners = [[width / 2 - side / 2, height - 30], [width / 2 + side / 2, height - 30], [width / 2, height - 30 - 0.866 * side]]
    const place = (f) => [0, 1].map((k) => f[0] * corners[0][k] + f[1] * corners[1][k] + f[2] * corners[2][k])
    const svg = A.svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'chart hull' })
    for (const [i, j] of diagram.lines) {
      const [a, b] = [place(diagram.phases[i][0]), place(diagram.phases[j][0])]
      svg.append(A.svg('line', { x1: a[0], y1: a[1], x2: b[0], y2: b[1], class: 'tie' }))
    }
    corners.forEach(([x, y], i) =>
      svg.append(A.svg('text', { x, y: i < 2 ? y + 22 : y - 10, 'text-anchor': 'middle', class: 'corner' }, system[i])))
    points(svg, [
      ...diagram.phases.map((p, i) => {
        const [x, y] = place(p[0])
        return { x, y, name: i < 3 ? '' : p[1], filled: p[3], kind: 'phase', rank: -p[2], title: `${p[1]}, ${A.energy(p[2])} eV/atom${p[3] ? ', made by the potential' : ''}` }
      }),
      ...marks.map((m) => {
        const [x, y] = place(m.fractions)
        return { ...m, x, y, rank: 0 }
      }),
    ], width, height)
    return svg
  }

  // entry: the chosen one; entries: all; hulls: {systems, labels, note}.
  A.hullDiagram = (host, entry, entries, hulls) => {
    const system = entry.elements
    const diagrams = hulls.systems[system.join('-')]
    if (!diagrams) {
      const why = system.length > 3
        ? `${system.length} elements: no flat diagram; what competes stands in the decompositions.`
        : hulls.note || 'There is no diagram of this system.'
      return host.replaceChildren(A.el('p', { class: 'note' }, why))
    }
    const names = Object.keys(diagrams).filter((name) => diagrams[name].phases.length && entry.on_scale?.[name] !== undefined)
    if (!names.length) return host.replaceChildren(A.el('p', { class: 'note' }, 'No database knows all of its elements.'))
    const box = A.el('div', { class: 'plot' })
    const tabs = A.el('div', { class: 'tabs', role: 'group', 'aria-label': 'Whose hull' })
    const fractions = (e) => {
      const amounts = A.amounts(e.formula)
      const total = Object.values(amounts).reduce((a, b) => a + b, 0)
      return system.map((s) => (amounts[s] || 0) / total)
    }
    const others = entries.filter((e) => e !== entry && e.standing === 'find' && e.on_scale && e.elements.every((s) => system.includes(s)))
    let name = names[0]
    const draw = (width) => {
      for (const button of tabs.children) button.setAttribute('aria-pressed', String(button.dataset.name === name))
      const mark = (e, kind) => ({
        fractions: fractions(e), energy: e.on_scale[name], kind, name: e.formula,
        title: `${e.formula}, ${A.energy(e.above)} eV/atom from the hull`,
      })
      const marks = [...others.filter((e) => e.on_scale[name] !== undefined).map((e) => mark(e, 'other')), mark(entry, 'chosen')]
      box.replaceChildren((system.length === 2 ? binary : ternary)(width, system, diagrams[name], marks))
    }
    for (const one of names)
      tabs.append(A.el('button', { type: 'button', 'data-name': one, onclick: () => ((name = one), draw(box.clientWidth)) }, hulls.labels[one] || one))
    host.replaceChildren(
      tabs, box,
      A.el('p', { class: 'legend' },
        A.el('span', { class: 'key' }, A.el('i', { class: 'dot known' }), 'known phase on the hull'),
        A.el('span', { class: 'key' }, A.el('i', { class: 'dot filled' }), 'made by the potential'),
        A.el('span', { class: 'key' }, A.el('i', { class: 'dot chosen' }), 'this crystal'),
        A.el('span', { class: 'key' }, A.el('i', { class: 'dot other' }), 'another find')),
      hulls.note ? A.el('p', { class: 'note' }, hulls.note) : '',
    )
    A.onWidth(box, draw)
  }
})()
