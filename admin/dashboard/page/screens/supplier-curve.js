/** What would happen at another price: the win curve of the model, with a slider. */
import { useState } from 'preact/hooks'
import { loaded, Term, useRead } from '../components.js'
import { integer, money, percent, plain } from '../format.js'
import { withFields, withValue } from '../forms.js'
import { html } from '../html.js'
import { ApiError, call } from '../session.js'

/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */
/** @typedef {import('../../../console/curve.ts').WinCurve} WinCurve */
/** @typedef {WinCurve['points'][number]} Point */

const width = 100
const height = 40
const ticks = [0.5, 0.6, 0.7, 0.8, 0.9, 1]

/** The smallest factor at which the floor of kept wins holds; null: at none of them. @param {Point[]} points @param {number} floor */
const lowestKept = (points, floor) =>
  points.find(({ kept }) => kept !== null && kept >= floor)?.factor ?? null

/**
 * The curve with its axes: factors below, chances of winning beside. `limits`: factors below which no price goes, as lines.
 * @param {{ points: Point[], price: number, limits: { factor: number, name: string }[] }} props
 */
function Line({ points, price, limits }) {
  const high = Math.max(...points.map(({ win }) => win), 1e-9)
  const x = (/** @type {number} */ factor) => (factor - 0.5) * 2 * width
  const y = (/** @type {number} */ win) => height - (win / high) * (height - 2)
  const path = points
    .map(({ factor, win }) => `${x(factor).toFixed(1)} ${y(win).toFixed(2)}`)
    .join('L')
  const ofLimits = limits.map(({ factor, name }) => `${name} at factor ${plain(factor)}`).join(', ')
  return html`<figure class="plot">
    <div class="ends upright" aria-hidden="true">${[1, 0.5, 0].map((part) => html`<span key=${part}>${percent(part * high)}</span>`)}</div>
    <svg class="curve" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img"
      aria-label=${`Chance of winning by factor, from 0.5 to 1: ${percent(points[0]?.win)} to ${percent(points.at(-1)?.win)}${ofLimits && `; ${ofLimits}`}`}>
      ${ticks.map((tick) => html`<line key=${tick} class="tick" x1=${x(tick)} x2=${x(tick)} y1="0" y2=${height} />`)}
      ${limits.map(({ factor, name }) => html`<line key=${name} class="limit" x1=${x(factor)} x2=${x(factor)} y1="0" y2=${height} />`)}
      <path d=${`M${path}`} /><line x1=${x(price)} x2=${x(price)} y1="0" y2=${height} /></svg>
    <div class="ends" aria-hidden="true">${ticks.map((tick) => html`<span key=${tick}>${plain(tick)}</span>`)}</div></figure>
    <p class="soft note">Up: chance of winning. Across: factor, outbound price divided by inbound price.${ofLimits && ` Dotted: ${ofLimits}.`}</p>`
}

/** @param {{ supplier: LiveIntegration }} props */
export function Curve({ supplier }) {
  const [publisher, setPublisher] = useState('')
  const [factor, setFactor] = useState(0.9)
  const off =
    supplier.opd === null || supplier.opd.state === 'off' || supplier.opd.state === 'invalid'
  const isDecided = supplier.modes.some(({ bids }) => bids > 0)
  const curve = useRead(async () => {
    if (off) return []
    if (!isDecided) return { unknown: 'No bid was decided since the nodes started' }
    const query = new URLSearchParams({ ssp: supplier.ssp })
    if (publisher !== '') query.set('publisher', publisher)
    return call(`/api/svc/curve/?${query}`).catch((error) => {
      // too few bids are known, which is no fault
      if (error instanceof ApiError && error.status === 404) return { unknown: error.message }
      throw error
    })
  }, [supplier.ssp, off, isDecided, publisher])
  const submit = withFields((field) => setPublisher(field('publisher').trim()))
  return html`<section class="sheet"><h2>What would happen at another price</h2>
    ${
      !off &&
      html`<form class="row" onSubmit=${submit}>
      <label class="pick">Publisher <input name="publisher" defaultValue=${publisher} placeholder="any" /></label>
      <button type="submit">Show</button></form>`
    }
    ${loaded(
      curve,
      (/** @type {WinCurve | { unknown: string }} */ found) => {
        if ('unknown' in found)
          return html`<p class="soft">${found.unknown}. The curve comes with bids and win notices.</p>`
        const { points, bids, currency, min_factor } = found
        const point = points.reduce((best, candidate) =>
          Math.abs(candidate.factor - factor) < Math.abs(best.factor - factor) ? candidate : best,
        )
        const best = points
          .filter((candidate) => candidate.factor >= min_factor)
          .reduce(
            (one, other) => (other.margin > one.margin ? other : one),
            /** @type {Point} */ (points.at(-1)),
          )
        const kept = supplier.opd === null ? null : lowestKept(points, supplier.opd.minWinRate)
        const limits = [
          { factor: Math.max(0.5, min_factor), name: 'minFactor' },
          ...(kept === null ? [] : [{ factor: kept, name: 'the floor of kept wins' }]),
        ]
        return html`<p class="soft">Means over the last ${integer(bids)} such bids that the model has learned from.</p>
        <${Line} points=${points} price=${point.factor} limits=${limits} />
        <label>Factor ${plain(point.factor)}: these bids leave at ${plain(point.price)} ${currency} CPM on average
          <input type="range" min="0.5" max="1" step="0.01" value=${factor} onInput=${withValue((value) => setFactor(Number(value)))} /></label>
        <p><${Term} name="Chance of winning" />: <strong>${percent(point.win)}</strong>, that is ${percent(point.kept)} of the wins at the inbound price.
          Expected margin of 1,000 such bids: <strong>${money(point.margin, currency)}</strong>.</p>
        <p class="soft">The largest expected margin is ${money(best.margin, currency)}, at factor ${plain(best.factor)} (allowed: ${plain(min_factor)} to 1).
          The floors on wins and spend may keep prices higher.${point.factor < min_factor && ' This factor is below minFactor.'}</p>`
      },
      'OPD is off for this supplier.',
    )}</section>`
}
