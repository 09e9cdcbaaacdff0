// Who is bonded to whom in a crystal, for pictures: atoms of the closed cell, bonds across its faces, polyhedra.
// crystal: {lattice: 9 numbers (rows, Å), numbers, frac: 3 n numbers}; A.elements: symbol, radius, colour, metal, χ.
'use strict'
;(() => {
  const A = window.anchor
  const COVALENT = 1.15 // times the sum of radii: bonds between non-metals
  const SHELL = 1.2 // times the shortest: the first shell of anions around a metal
  const FARTHEST = 1.3 // times the sum of radii, of that shell
  const METALLIC = 1.12 // where there are metals only
  const POLAR = 0.3 // difference of electronegativities that makes the lower one a centre
  const ON_FACE = 0.002 // fraction of the cell
  const BIG = new Set(['Na', 'K', 'Rb', 'Cs', 'Ca', 'Sr', 'Ba', 'Tl']) // polyhedra of others are shown first

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
  const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
  const norm = (a) => Math.hypot(...a)
  Object.assign(A, { dot, cross, minus, norm })

  A.cell = (crystal) => [0, 3, 6].map((i) => crystal.lattice.slice(i, i + 3))
  A.cartesian = (f, cell) => [0, 1, 2].map((k) => f[0] * cell[0][k] + f[1] * cell[1][k] + f[2] * cell[2][k])

  // Neighbours of each atom of the cell within its longest possible bond: {to, shift, distance}.
  function neighbours(frac, numbers, cell) {
    const radius = numbers.map((z) => A.elements[z][1])
    const reach = FARTHEST * 2 * Math.max(...radius)
    const volume = Math.abs(dot(cell[0], cross(cell[1], cell[2])))
    const span = [0, 1, 2].map((k) => Math.ceil((reach * norm(cross(cell[(k + 1) % 3], cell[(k + 2) % 3]))) / volume))
    const found = frac.map(() => [])
    for (let a = -span[0]; a <= span[0]; a++)
      for (let b = -span[1]; b <= span[1]; b++)
        for (let c = -span[2]; c <= span[2]; c++)
          for (let i = 0; i < frac.length; i++)
            for (let j = 0; j < frac.length; j++) {
              const d = A.cartesian([frac[j][0] + a - frac[i][0], frac[j][1] + b - frac[i][1], frac[j][2] + c - frac[i][2]], cell)
              const distance = norm(d)
              if (distance > 0.1 && distance < FARTHEST * (radius[i] + radius[j])) found[i].push({ to: j, shift: [a, b, c], distance })
            }
    return found
  }

  // Bonds of each atom of the cell. In a compound with non-metals no metal is bonded to a metal, nor to the
  // centre of a molecule ion (the S of SO4), but to the first shell of anions.
  A.bonds = (crystal) => {
    const { numbers } = crystal
    const cell = A.cell(crystal)
    const frac = numbers.map((_, i) => crystal.frac.slice(3 * i, 3 * i + 3))
    const near = neighbours(frac, numbers, cell)
    const of = (i) => A.elements[numbers[i]]
    const sum = (i, j) => of(i)[1] + of(j)[1]
    const metal = numbers.map((_, i) => of(i)[3])
    if (metal.every(Boolean)) return near.map((list, i) => list.filter((n) => n.distance < METALLIC * sum(i, n.to)))
    const bonds = near.map((list, i) => (metal[i] ? [] : list.filter((n) => !metal[n.to] && n.distance < COVALENT * sum(i, n.to))))
    const centre = bonds.map((list, i) => list.some((n) => of(n.to)[4] - of(i)[4] > POLAR))
    numbers.forEach((_, i) => {
      if (!metal[i]) return
      let anions = near[i].filter((n) => !metal[n.to] && !centre[n.to])
      if (!anions.length) anions = near[i].filter((n) => !metal[n.to])
      const ratio = (n) => n.distance / sum(i, n.to)
      const shortest = Math.min(...anions.map(ratio))
      for (const n of anions) {
        if (ratio(n) > SHELL * shortest) continue
        bonds[i].push(n)
        bonds[n.to].push({ to: i, shift: n.shift.map((s) => -s), distance: n.distance })
      }
    })
    return bonds
  }

  // Triangles of the convex hull of a few points: pairs of outer sides of all planes through three of them.
  function hullFaces(points) {
    const faces = []
    const n = points.length
    for (let i = 0; i < n; i++)
      for (let j = i + 1; j < n; j++)
        for (let k = j + 1; k < n; k++) {
          const normal = cross(minus(points[j], points[i]), minus(points[k], points[i]))
          const size = norm(normal)
          if (size < 1e-6) continue
          const sides = points.map((p) => dot(minus(p, points[i]), normal) / size)
          if (sides.every((s) => s < 0.05) || sides.every((s) => s > -0.05)) faces.push([i, j, k])
        }
    return faces
  }

  // What is drawn: atoms {at, z, outer}, bonds [i, j], polyhedra {z, faces: [[p, q, r]]}.
  A.scene = (crystal, { polyhedra = true } = {}) => {
    const { numbers } = crystal
    const cell = A.cell(crystal)
    const bonds = A.bonds(crystal)
    const atoms = []
    const index = new Map()
    const put = (site, shift, outer) => {
      const key = `${site}/${shift}`
      if (!index.has(key)) {
        index.set(key, atoms.length)
        const f = [0, 1, 2].map((k) => crystal.frac[3 * site + k] + shift[k])
        atoms.push({ at: A.cartesian(f, cell), z: numbers[site], site, shift, outer })
      }
      return index.get(key)
    }
    numbers.forEach((_, site) => {
      const options = [0, 1, 2].map((k) => {
        const x = crystal.frac[3 * site + k]
        return x < ON_FACE ? [0, 1] : x > 1 - ON_FACE ? [-1, 0] : [0]
      })
      for (const a of options[0]) for (const b of options[1]) for (const c of options[2]) put(site, [a, b, c], false)
    })
    const anionNeighbours = (site) => bonds[site].filter((n) => A.elements[numbers[n.to]][4] > A.elements[numbers[site]][4])
    const size = (site) => anionNeighbours(site).length
    const able = [...new Set(numbers)].filter((z) => {
      const sites = numbers.flatMap((y, i) => (y === z ? [i] : []))
      return sites.every((i) => size(i) >= 4 && size(i) <= 8)
    })
    const small = able.filter((z) => !BIG.has(A.elements[z][0]))
    const hosts = new Set(polyhedra ? (small.length ? small : able) : [])
    const shapes = []
    for (const atom of [...atoms]) {
      if (!hosts.has(atom.z)) continue
      const ring = anionNeighbours(atom.site).map((n) => put(n.to, n.shift.map((s, k) => s + atom.shift[k]), true))
      const places = ring.map((i) => atoms[i].at)
      shapes.push({ z: atom.z, faces: hullFaces(places).map((face) => face.map((i) => places[i])) })
    }
    const pairs = []
    atoms.forEach((atom, i) => {
      for (const n of bonds[atom.site]) {
        const j = index.get(`${n.to}/${n.shift.map((s, k) => s + atom.shift[k])}`)
        if (j > i && !(atom.outer && atoms[j].outer)) pairs.push([i, j])
      }
    })
    return { atoms, bonds: pairs, shapes, cell }
  }
})()
