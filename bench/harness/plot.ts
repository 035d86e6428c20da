/** Plots as SVG text, a few kilobytes each. */

interface Bar {
  label: string
  value: number
  accent: boolean
}
export interface Series {
  name: string
  points: readonly (readonly [number, number])[]
}

const escaped = (text: string) =>
  text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[sign]!)

/** Horizontal bars from the smallest to the largest, legible on light and dark pages. */
export function bars(title: string, rows: readonly Bar[]): string {
  const sorted = rows.toSorted((one, other) => one.value - other.value)
  const [top, step, left, width] = [44, 30, 180, 720]
  const scale = (width - left - 70) / Math.max(1, ...sorted.map(({ value }) => value))
  const lines = sorted.map(({ label, value, accent }, index) => {
    const y = top + index * step
    const long = Math.max(1, value * scale)
    return (
      `<text x="${left - 10}" y="${y + 15}" text-anchor="end">${escaped(label)}</text>` +
      `<rect x="${left}" y="${y}" width="${long.toFixed(1)}" height="20" rx="2" fill="${accent ? '#0a7d5a' : '#8b97a5'}"/>` +
      `<text x="${(left + long + 8).toFixed(1)}" y="${y + 15}">${value.toFixed(1)}</text>`
    )
  })
  const height = top + sorted.length * step + 10
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#6b7684"><title>${escaped(title)}</title><text x="10" y="24" font-size="15" font-weight="600">${escaped(title)}</text>${lines.join('')}</svg>\n`
}

const [width, height, left, bottom, top, right] = [640, 320, 60, 40, 30, 150]
const colours = ['#2563eb', '#dc2626', '#16a34a', '#9333ea', '#ea580c', '#0891b2']

const ticksOf = (low: number, high: number) =>
  Array.from({ length: 5 }, (_each, n) => low + ((high - low) * n) / 4)
const shown = (value: number) =>
  Math.abs(value) >= 1000 ? `${Math.round(value / 1000)}k` : String(Number(value.toPrecision(3)))

export function curves(title: string, x: string, y: string, series: readonly Series[]): string {
  const all = series.flatMap(({ points }) => points).filter((point) => point.every(Number.isFinite))
  const rangeOf = (axis: 0 | 1, pick: (...values: number[]) => number) =>
    pick(...all.map((point) => point[axis]))
  const [x0, x1, y0, y1] = [
    rangeOf(0, Math.min),
    rangeOf(0, Math.max),
    rangeOf(1, Math.min),
    rangeOf(1, Math.max),
  ]
  const px = (value: number) => left + ((value - x0) / (x1 - x0 || 1)) * (width - left - right)
  const py = (value: number) =>
    height - bottom - ((value - y0) / (y1 - y0 || 1)) * (height - bottom - top)
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11"><title>${escaped(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/><text x="${left}" y="18" font-size="13">${escaped(title)}</text>`,
  ]
  for (const tick of ticksOf(y0, y1))
    parts.push(
      `<line x1="${left}" x2="${width - right}" y1="${py(tick)}" y2="${py(tick)}" stroke="#e5e7eb"/>`,
      `<text x="${left - 6}" y="${py(tick) + 4}" text-anchor="end">${shown(tick)}</text>`,
    )
  for (const tick of ticksOf(x0, x1))
    parts.push(
      `<text x="${px(tick)}" y="${height - bottom + 16}" text-anchor="middle">${shown(tick)}</text>`,
    )
  parts.push(
    `<text x="${(left + width - right) / 2}" y="${height - 6}" text-anchor="middle">${x}</text>`,
    `<text transform="translate(14 ${height / 2}) rotate(-90)" text-anchor="middle">${y}</text>`,
  )
  series.forEach(({ name, points }, n) => {
    const colour = colours[n % colours.length]!
    const path = points.map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`).join(' ')
    parts.push(
      `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.5"/>`,
      `<text x="${width - right + 8}" y="${top + 14 * n + 8}" fill="${colour}">${escaped(name)}</text>`,
    )
  })
  return `${parts.join('')}</svg>\n`
}
