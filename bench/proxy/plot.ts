/** A bar chart as SVG text. */

interface Bar {
  label: string
  value: number
  accent: boolean
}

const escaped = (text: string) =>
  text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[sign]!)

/** Horizontal bars from the smallest to the largest, legible on light and dark pages. */
export function bars(title: string, rows: readonly Bar[]): string {
  const sorted = [...rows].sort((a, b) => a.value - b.value)
  const top = 44
  const step = 30
  const left = 180
  const width = 720
  const scale = (width - left - 70) / Math.max(1, ...sorted.map(({ value }) => value))
  const lines = sorted.map(({ label, value, accent }, at) => {
    const y = top + at * step
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
