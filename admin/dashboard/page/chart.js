/** A time series with axes, a cursor and zoom (drag; double click resets), by uPlot. */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { zone } from './format.js'
import { html } from './html.js'

const dark = matchMedia('(prefers-color-scheme: dark)')

/**
 * `points`: seconds since 1970, and values oldest first; null leaves a gap.
 * @param {{ label: string, from: number, to: number, times: number[], values: (number | null)[], format: (value: number | null | undefined) => string }} props
 */
export function Chart({ label, from, to, times, values, format }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => {
    const { current } = box
    if (current === null || times.length === 0) return
    const style = getComputedStyle(document.documentElement)
    const colour = (/** @type {string} */ name) => {
      const probe = document.createElement('span')
      probe.style.color = style.getPropertyValue(name)
      current.append(probe)
      const { color } = getComputedStyle(probe)
      probe.remove()
      return color
    }
    /** @type {uPlot | null} */
    let plot = null
    const draw = () => {
      plot?.destroy()
      const [soft, line, accent] = [colour('--soft'), colour('--line'), colour('--accent')]
      const axis = {
        stroke: soft,
        grid: { stroke: line, width: 1 },
        ticks: { stroke: line, width: 1 },
      }
      plot = new uPlot(
        {
          width: current.clientWidth,
          height: 240,
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone.value),
          scales: { x: { range: [from, to] } },
          series: [
            {},
            {
              label,
              stroke: accent,
              width: 2,
              points: { show: times.length < 50 },
              value: (_, value) => format(value),
            },
          ],
          axes: [
            axis,
            { ...axis, size: 90, values: (_, all) => all.map((value) => format(value)) },
          ],
        },
        [times, values],
        current,
      )
    }
    draw()
    const observer = new ResizeObserver(() =>
      plot?.setSize({ width: current.clientWidth, height: 240 }),
    )
    observer.observe(current)
    dark.addEventListener('change', draw)
    return () => {
      observer.disconnect()
      dark.removeEventListener('change', draw)
      plot?.destroy()
    }
  }, [label, zone.value, JSON.stringify([from, to, times, values])])
  return html`<div class="chart" role="img" aria-label=${`${label} over time, as a line; the table below has the same figures`} ref=${box}></div>`
}
