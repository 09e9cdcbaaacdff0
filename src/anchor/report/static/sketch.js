// <crystal-sketch>: our own small viewer on a canvas: shaded spheres, bonds, polyhedra, the whole cell.
// element.crystal = {lattice, numbers, frac}. Drag turns, the wheel zooms, a double click resets.
'use strict'
;(() => {
  const A = window.anchor
  const BALL = 0.42 // of the covalent radius
  const SMALLEST = 0.28 // Å
  const FOG = 0.55 // share of the background at the far end
  const START = [-0.35, 0.5] // turn about x, y, rad

  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16))
  const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t))
  const rgb = (c, alpha = 1) => `rgba(${c[0]},${c[1]},${c[2]},${alpha})`
  const parse = (text) => (text.match(/[\d.]+/g) || [255, 255, 255]).slice(0, 3).map(Number)

  function turn(matrix, x, y) {
    const [cx, sx, cy, sy] = [Math.cos(x), Math.sin(x), Math.cos(y), Math.sin(y)]
    const by = [[cy, 0, sy], [sx * sy, cx, -sx * cy], [-cx * sy, sx, cx * cy]]
    return by.map((row) => [0, 1, 2].map((k) => row[0] * matrix[0][k] + row[1] * matrix[1][k] + row[2] * matrix[2][k]))
  }

  class CrystalSketch extends HTMLElement {
    #crystal
    #scene
    #matrix
    #zoom = 1
    #polyhedra = true

    set crystal(value) {
      this.#crystal = value
      if (this.isConnected) this.#begin()
    }

    connectedCallback() {
      this.style.display = 'block'
      if (this.#crystal) this.#begin()
    }

    #begin() {
      const canvas = A.el('canvas', { role: 'img', 'aria-label': 'Crystal, drag to turn' })
      const symbols = [...new Set(this.#crystal.numbers)].sort((a, b) => a - b)
      const legend = A.el('div', { class: 'legend' }, ...symbols.map((z) =>
        A.el('span', { class: 'key' }, A.el('i', { class: 'ball', style: `background:${A.elements[z][2]}` }), A.elements[z][0])))
      const box = A.el('input', { type: 'checkbox', checked: true, onchange: () => ((this.#polyhedra = box.checked), this.#build(), this.#draw()) })
      legend.append(A.el('label', { class: 'key' }, box, 'polyhedra'))
      this.replaceChildren(canvas, legend)
      this.#build()
      this.#reset()
      let last = null
      const fingers = new Map()
      canvas.addEventListener('pointerdown', (e) => {
        canvas.setPointerCapture(e.pointerId)
        fingers.set(e.pointerId, [e.clientX, e.clientY])
        last = null
      })
      canvas.addEventListener('pointermove', (e) => {
        const before = fingers.get(e.pointerId)
        if (!before) return
        fingers.set(e.pointerId, [e.clientX, e.clientY])
        if (fingers.size === 1) this.#matrix = turn(this.#matrix, (e.clientY - before[1]) / 120, (e.clientX - before[0]) / 120)
        else {
          const [a, b] = [...fingers.values()]
          const apart = Math.hypot(a[0] - b[0], a[1] - b[1])
          if (last) this.#scale(apart / last)
          last = apart
        }
        this.#draw()
      })
      for (const name of ['pointerup', 'pointercancel'])
        canvas.addEventListener(name, (e) => (fingers.delete(e.pointerId), (last = null)))
      canvas.addEventListener('wheel', (e) => (e.preventDefault(), this.#scale(Math.exp(-e.deltaY / 600)), this.#draw()), { passive: false })
      canvas.addEventListener('dblclick', () => (this.#reset(), this.#draw()))
      new ResizeObserver(() => this.#draw()).observe(canvas)
      window.addEventListener('anchor-theme', () => this.#draw())
    }

    #build() {
      this.#scene = A.scene(this.#crystal, { polyhedra: this.#polyhedra })
      const { cell, atoms } = this.#scene
      this.middle = A.cartesian([0.5, 0.5, 0.5], cell)
      const corners = [0, 1].flatMap((a) => [0, 1].flatMap((b) => [0, 1].map((c) => A.cartesian([a, b, c], cell))))
      this.reach = Math.max(...[...corners, ...atoms.map((a) => a.at)].map((p) => A.norm(A.minus(p, this.middle)))) + 0.8
    }

    // c up, b to the right, seen a little from above.
    #reset() {
      const [a, , c] = this.#scene.cell
      const unit = (v) => v.map((x) => x / (A.norm(v) || 1))
      const up = unit(c)
      const right = unit(A.cross(up, a))
      const toward = unit(A.cross(right, up))
      this.#matrix = turn([right, up.map((v) => -v), toward], ...START)
      this.#zoom = 1
    }

    #scale(by) {
      this.#zoom = Math.max(0.4, Math.min(6, this.#zoom * by))
    }

    #draw() {
      const canvas = this.querySelector('canvas')
      const [width, height] = [canvas.clientWidth, canvas.clientHeight]
      if (!width || !this.#scene) return
      const ratio = window.devicePixelRatio || 1
      canvas.width = width * ratio
      canvas.height = height * ratio
      const ctx = canvas.getContext('2d')
      ctx.scale(ratio, ratio)
      const back = parse(getComputedStyle(this).getPropertyValue('background-color'))
      const dark = A.isDark()
      const scale = (this.#zoom * Math.min(width, height)) / (2.05 * this.reach)
      const eye = 5 * this.reach
      const project = (p) => {
        const d = A.minus(p, this.middle)
        const [x, y, z] = this.#matrix.map((row) => A.dot(row, d))
        const near = eye / (eye - z)
        return { x: width / 2 + x * scale * near, y: height / 2 + y * scale * near, z, near }
      }
      const fog = (z) => FOG * Math.max(0, Math.min(1, (this.reach - z) / (2 * this.reach)) - 0.25)
      const colour = (z, depth, alpha) => rgb(mix(channels(A.elements[z][2]), back, fog(depth)), alpha)
      const items = []
      const { atoms, bonds, shapes, cell } = this.#scene
      const seen = atoms.map((atom) => ({ ...project(atom.at), atom }))
      for (const shape of shapes)
        for (const face of shape.faces) {
          const points = face.map(project)
          const z = points.reduce((n, p) => n + p.z, 0) / 3
          items.push([z - 0.3, () => {
            ctx.beginPath()
            points.forEach((p, i) => (i ? ctx.lineTo(p.x, p.y) : ctx.moveTo(p.x, p.y)))
            ctx.closePath()
            ctx.fillStyle = colour(shape.z, z, 0.16)
            ctx.fill()
            ctx.strokeStyle = colour(shape.z, z, 0.35)
            ctx.lineWidth = 0.7
            ctx.stroke()
          }])
        }
      for (const [i, j] of bonds) {
        const [a, b] = [seen[i], seen[j]]
        const half = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, z: (a.z + b.z) / 2 }
        for (const end of [a, b])
          items.push([(end.z + half.z) / 2 - 0.05, () => {
            const z = (end.z + half.z) / 2
            for (const [w, c] of [[0.2, rgb(mix(mix(channels(A.elements[end.atom.z][2]), [0, 0, 0], 0.45), back, fog(z)))], [0.13, colour(end.atom.z, z)]]) {
              ctx.beginPath()
              ctx.moveTo(end.x, end.y)
              ctx.lineTo(half.x, half.y)
              ctx.lineWidth = Math.max(1.2, w * scale)
              ctx.strokeStyle = c
              ctx.stroke()
            }
          }])
      }
      for (const p of seen)
        items.push([p.z, () => {
          const r = Math.max(SMALLEST, BALL * A.elements[p.atom.z][1]) * scale * p.near * (p.atom.outer ? 0.8 : 1)
          const base = channels(A.elements[p.atom.z][2])
          const f = Math.min(0.8, fog(p.z) + (p.atom.outer ? 0.15 : 0))
          const light = ctx.createRadialGradient(p.x - 0.35 * r, p.y - 0.4 * r, 0.1 * r, p.x, p.y, r)
          light.addColorStop(0, rgb(mix(mix(base, [255, 255, 255], 0.75), back, f)))
          light.addColorStop(0.45, rgb(mix(base, back, f)))
          light.addColorStop(1, rgb(mix(mix(base, [0, 0, 0], 0.5), back, f)))
          ctx.beginPath()
          ctx.arc(p.x, p.y, r, 0, 7)
          ctx.fillStyle = light
          ctx.fill()
          ctx.lineWidth = 0.6
          ctx.strokeStyle = rgb(mix(dark ? [0, 0, 0] : [60, 60, 60], back, f), 0.7)
          ctx.stroke()
        }])
      const edge = dark ? [190, 196, 206] : [90, 98, 110]
      for (let k = 0; k < 3; k++)
        for (const u of [0, 1])
          for (const v of [0, 1])
            for (let s = 0; s < 8; s++) {
              const at = (t) => {
                const f = [0, 0, 0]
                f[k] = t
                f[(k + 1) % 3] = u
                f[(k + 2) % 3] = v
                return project(A.cartesian(f, cell))
              }
              const [a, b] = [at(s / 8), at((s + 1) / 8)]
              const z = (a.z + b.z) / 2
              items.push([z, () => {
                ctx.beginPath()
                ctx.moveTo(a.x, a.y)
                ctx.lineTo(b.x, b.y)
                ctx.lineWidth = 1.2
                ctx.strokeStyle = rgb(mix(edge, back, fog(z)))
                ctx.stroke()
              }])
            }
      for (const [, paint] of items.sort((a, b) => a[0] - b[0])) paint()
      this.#axes(ctx, height, dark)
    }

    // The directions of a, b and c in the corner.
    #axes(ctx, height, dark) {
      const colours = ['#d1495b', '#2a9d5f', '#3b7dd8']
      ctx.font = '12px system-ui, sans-serif'
      this.#scene.cell.forEach((vector, i) => {
        const [x, y] = this.#matrix.map((row) => A.dot(row, vector) / A.norm(vector))
        ctx.beginPath()
        ctx.moveTo(34, height - 34)
        ctx.lineTo(34 + 20 * x, height - 34 + 20 * y)
        ctx.lineWidth = 2
        ctx.strokeStyle = ctx.fillStyle = colours[i]
        ctx.stroke()
        ctx.fillStyle = dark ? '#ddd' : '#333'
        ctx.fillText('abc'[i], 30 + 28 * x, height - 30 + 28 * y)
      })
    }
  }
  customElements.define('crystal-sketch', CrystalSketch)

  // A crystal as pymatgen's Structure.as_dict(), which <crystal-view> takes.
  A.structure = (crystal) => {
    const cell = A.cell(crystal)
    const [a, b, c] = cell.map(A.norm)
    const angle = (i, j) => (Math.acos(A.dot(cell[i], cell[j]) / (A.norm(cell[i]) * A.norm(cell[j]))) * 180) / Math.PI
    return {
      '@module': 'pymatgen.core.structure', '@class': 'Structure', charge: 0, properties: {},
      lattice: {
        matrix: cell, pbc: [true, true, true], a, b, c, alpha: angle(1, 2), beta: angle(0, 2), gamma: angle(0, 1),
        volume: Math.abs(A.dot(cell[0], A.cross(cell[1], cell[2]))),
      },
      sites: crystal.numbers.map((z, i) => {
        const abc = crystal.frac.slice(3 * i, 3 * i + 3)
        const symbol = A.elements[z][0]
        return { species: [{ element: symbol, occu: 1 }], abc, xyz: A.cartesian(abc, cell), label: symbol, properties: {} }
      }),
    }
  }

  // Loads matterviz if the page holds or names it; null where there is none, or no WebGL.
  let loading = null
  A.betterViewer = () => {
    loading ??= (async () => {
      const packed = document.getElementById('viewer-bundle')
      if (!packed && !A.viewerUrl) return null
      if (!document.createElement('canvas').getContext('webgl2')) return null
      const url = A.viewerUrl || URL.createObjectURL(new Blob([await A.inflate(packed.textContent)], { type: 'text/javascript' }))
      await import(url)
      return 'crystal-view'
    })()
    return loading
  }

  // Shows a crystal in a box: our own sketch at once, and matterviz in its place where it was built in.
  A.showCrystal = async (host, crystal) => {
    const sketch = A.el('crystal-sketch')
    const note = A.el('p', { class: 'note' })
    sketch.crystal = crystal
    host.replaceChildren(sketch, note)
    try {
      const better = await A.betterViewer()
      if (!sketch.isConnected) return // another crystal was chosen meanwhile
      if (!better) {
        const then = location.protocol.startsWith('http') ? 'load this page again' : 'write the report again'
        note.textContent = `Simple view. For the full viewer (distances, symmetry, pictures): make web, then ${then}.`
        return
      }
      const view = document.createElement(better)
      view.structure = A.structure(crystal)
      host.replaceChildren(view)
    } catch (error) {
      note.textContent = `The full viewer failed: ${error.message}`
    }
  }
})()
