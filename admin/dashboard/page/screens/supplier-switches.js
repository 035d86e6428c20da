/** Seats and data centers of a supplier: switches and allotments. Each change can be undone. */
import { ask } from '../actions.js'
import { whole } from '../format.js'
import { html } from '../html.js'
import { Level, Loaded, Term, useRead } from '../parts.js'
import { call } from '../session.js'
import { integration, may } from '../state.js'
import { words } from '../words.js'
import { NewSeat } from './supplier-new-seat.js'

/** @typedef {{ name: string, name_external: string, is_active: boolean, qps: { location: string, value: number | null }[] }} Seat */
/** @typedef {{ location: string, client_qps: number | null, is_active: boolean }} Center */

const limit = (/** @type {number | null} */ qps) =>
  qps === null ? 'no limit' : `${whole(qps)} requests / s`

/** @param {{ ssp: string }} props */
export function Switches({ ssp }) {
  const path = `/api/svc/ssp/${encodeURIComponent(ssp)}/`
  const supplier = useRead(() => call(path), [ssp])
  const name = integration(ssp)?.name ?? ssp
  const put = async (/** @type {object} */ body) => {
    await call(path, 'PUT', body)
    await supplier.again()
  }
  const askSeat = (/** @type {Seat} */ { name: seat, is_active }) =>
    ask({
      title: `${is_active ? 'Switch off' : 'Switch on'} seat ${seat}?`,
      text: is_active
        ? `Bids of seat ${seat} are removed from every bid response of ${name}, on every node within 2 seconds.`
        : `Bids of seat ${seat} pass again in the bid responses of ${name}, on every node within 2 seconds.`,
      verb: is_active ? 'Switch off' : 'Switch on',
      danger: is_active,
      act: () => put({ dsp_seats: [{ name: seat, is_active: !is_active }] }),
      undo: () => put({ dsp_seats: [{ name: seat, is_active }] }),
      done: `Seat ${seat} is ${is_active ? 'off' : 'on'}.`,
    })
  const askCenter = (/** @type {Center} */ { location, is_active }) =>
    ask({
      title: `${is_active ? 'Switch off' : 'Switch on'} data center ${location}?`,
      text: is_active
        ? `${name} gets no bid request from ${location}: callers there get a no-bid at once. Within 2 seconds.`
        : `${name} gets bid requests from ${location} again, within 2 seconds.`,
      verb: is_active ? 'Switch off' : 'Switch on',
      danger: is_active,
      act: () => put({ datacenters: [{ location, is_active: !is_active }] }),
      undo: () => put({ datacenters: [{ location, is_active }] }),
      done: `Data center ${location} is ${is_active ? 'off' : 'on'}.`,
    })
  const askQps = (
    /** @type {SubmitEvent} */ event,
    /** @type {Center} */ { location, client_qps },
  ) => {
    event.preventDefault()
    const text = String(
      new FormData(/** @type {HTMLFormElement} */ (event.target)).get('qps'),
    ).trim()
    const next = text === '' ? null : Number(text)
    if (next === client_qps) return
    ask({
      title: `Change the allotment of ${location}?`,
      text: `${location} may send ${limit(next)} to ${name}; now: ${limit(client_qps)}. The nodes of the location share it. Requests above it get a no-bid.`,
      verb: 'Change',
      danger: next !== null && (client_qps === null || next < client_qps),
      act: () => put({ datacenters: [{ location, client_qps: next }] }),
      undo: () => put({ datacenters: [{ location, client_qps }] }),
      done: `The allotment of ${location} is ${limit(next)}.`,
    })
  }
  const editable = may('api')
  const flip = (
    /** @type {string} */ what,
    /** @type {boolean} */ on,
    /** @type {() => void} */ act,
  ) =>
    editable &&
    html`<button type="button" aria-label=${`Switch ${on ? 'off' : 'on'} ${what}`} onClick=${act}>Switch ${on ? 'off' : 'on'}</button>`
  const state = (/** @type {boolean} */ on) =>
    html`<${Level} level=${on ? 'ok' : 'warn'} label=${on ? 'on' : 'off'} />`
  return html`<section class="sheet"><h2>Seats and data centers</h2>
    <${Loaded} of=${supplier}>${(
      /** @type {{ dsp_seats: Seat[], datacenters: Center[] }} */ { dsp_seats, datacenters },
    ) => html`
      <h3><${Term} name="Seats" text=${words['Seat']} /></h3>
      ${dsp_seats.length === 0 && html`<p class="soft">None are listed: bids of every seat pass.</p>`}
      <ul class="lines">${dsp_seats.map(
        (seat) =>
          html`<li key=${seat.name}><span><strong>${seat.name}</strong> <small>${seat.name_external}${seat.qps.map(
            ({ location, value }) => `, ${location} ${limit(value)}`,
          )}</small></span>${state(seat.is_active)}${flip(`seat ${seat.name}`, seat.is_active, () => askSeat(seat))}</li>`,
      )}</ul>
      <h3><${Term} name="Data centers" text=${words['Data center']} /></h3>
      ${datacenters.length === 0 && html`<p class="soft">None are listed: every data center is on and has no limit.</p>`}
      <ul class="lines">${datacenters.map(
        (
          center,
        ) => html`<li key=${center.location}><span><strong>${center.location}</strong> <small>${limit(center.client_qps)}</small></span>
          ${state(center.is_active)}${flip(`data center ${center.location}`, center.is_active, () => askCenter(center))}
          ${
            editable &&
            html`<form class="row" onSubmit=${(/** @type {SubmitEvent} */ event) => askQps(event, center)}>
              <label class="pick"><${Term} name="Allotment" /><input class="short" name="qps" type="number" min="0" step="1" defaultValue=${center.client_qps ?? ''} placeholder="no limit"
                aria-label=${`Allotment of ${center.location}, requests a second`} /></label><button type="submit" aria-label=${`Change the allotment of ${center.location}`}>Change</button></form>`
          }</li>`,
      )}</ul>
      ${
        editable &&
        html`<${NewSeat} ssp=${ssp} name=${name} again=${supplier.again}
          locations=${datacenters.map(({ location }) => location)} taken=${dsp_seats.map((seat) => seat.name)} />`
      }`}<//></section>`
}
