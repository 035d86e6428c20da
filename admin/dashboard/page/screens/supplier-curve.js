/** What would happen at another price: the win curve of the model, with a slider. */
import { useState } from 'preact/hooks'
import { loaded, Term, useRead } from '../components.js'
import { money, percent, plain } from '../format.js'
import { withFields, withValue } from '../forms.js'
import { html } from '../html.js'
import { call } from '../session.js'

/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */
/** @typedef {import('../../../console/curve.ts').WinCurve} WinCurve */
/** @typedef {WinCurve['points'][number]} Point */

const width = 100
const height = 40

/** @param {{ points: Point[], at: number }} props */
function Line({ points, at }) {
  const high = Math.max(...points.map(({ win }) => win), 1e-9)
  const x = (/** @type {number} */ factor) => (factor - 0.5) * 2 * width
  const y = (/** @type {number} */ win) => height - (win / high) * (height - 2)
  const path = points
    .map(({ factor, win }) => `${x(factor).toFixed(1)} ${y(win).toFixed(2)}`)
    .join('L')
  return html`<svg class="curve" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img"
    aria-label="Chance of winning by factor, from 0.5 to 1"><path d=${`M${path}`} /><line x1=${x(at)} x2=${x(at)} y1="0" y2=${height} /></svg>`
}

/** @param {{ of: LiveIntegration }} props */
export function Curve({ of }) {
  const [asked, setAsked] = useState({ publisher: '', price: '2', floor: '0' })
  const [factor, setFactor] = useState(0.9)
  const off = of.opd === null || of.opd.state === 'off' || of.opd.state === 'invalid'
  const curve = useRead(async () => {
    if (off) return []
    const { publisher, price, floor } = asked
    const query = new URLSearchParams({ ssp: of.ssp, in: price, floor })
    if (publisher !== '') query.set('publisher', publisher)
    return call(`/api/svc/curve/?${query}`)
  }, [of.ssp, off, JSON.stringify(asked)])
  const submit = withFields((field) =>
    setAsked({
      publisher: field('publisher').trim(),
      price: field('price').trim() || '2',
      floor: field('floor').trim() || '0',
    }),
  )
  return html`<section class="sheet"><h2>What would happen at another price</h2>
    ${
      !off &&
      html`<form class="row" onSubmit=${submit}>
      <label class="pick">Publisher <input name="publisher" defaultValue=${asked.publisher} placeholder="any" /></label>
      <label class="pick">Inbound price, <${Term} name="CPM" /><input class="short" name="price" inputmode="decimal" aria-label="Inbound price" pattern="\\d+(\\.\\d+)?" defaultValue=${asked.price} /></label>
      <label class="pick">Floor, CPM <input class="short" name="floor" inputmode="decimal" pattern="\\d+(\\.\\d+)?" defaultValue=${asked.floor} /></label>
      <button type="submit">Show</button></form>`
    }
    ${loaded(
      curve,
      (/** @type {WinCurve} */ { points, currency, min_factor }) => {
        const point = points.reduce((best, each) =>
          Math.abs(each.factor - factor) < Math.abs(best.factor - factor) ? each : best,
        )
        const best = points
          .filter((each) => each.factor >= min_factor && each.price >= Number(asked.floor))
          .reduce(
            (one, other) => (other.margin > one.margin ? other : one),
            /** @type {Point} */ (points.at(-1)),
          )
        return html`<${Line} points=${points} at=${point.factor} />
        <label>Factor ${plain(point.factor)}: the bid leaves at ${plain(point.price)} ${currency} CPM
          <input type="range" min="0.5" max="1" step="0.01" value=${factor} onInput=${withValue((value) => setFactor(Number(value)))} /></label>
        <p><${Term} name="Chance of winning" />: <strong>${percent(point.win)}</strong>, that is ${percent(point.kept)} of the wins at the inbound price.
          Expected margin of 1,000 such bids: <strong>${money(point.margin, currency)}</strong>.</p>
        <p class="soft">The largest expected margin is ${money(best.margin, currency)}, at factor ${plain(best.factor)} (allowed: ${plain(min_factor)} to 1).
          The floors on wins and spend may keep prices higher.${point.factor < min_factor && ' This factor is below minFactor.'}</p>`
      },
      'OPD is off for this supplier.',
    )}</section>`
}
