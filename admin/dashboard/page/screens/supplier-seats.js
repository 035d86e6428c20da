/** Seats and data centers of a supplier: switches, allotments, and new ones. Each change but a new one can be undone. */
import { ask } from '../actions.js'
import { changeField, supplierPath } from '../changes.js'
import { Level, loaded, Term, useRead } from '../components.js'
import { integer, isolated, sentence } from '../format.js'
import { withFields } from '../forms.js'
import { glossary } from '../glossary.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { integration, live, may } from '../state.js'

/** @import { SupplierResource } from '../../../management/schema.ts' */
/** @import { DataCenter } from '../../../store/tables.ts' */

/** Milliseconds. */
const readEvery = 9000

const limit = (/** @type {number | null} */ qps) =>
  qps === null ? 'no limit' : `${integer(qps)} requests / s`

/** The state of something, and for those who may change it the button that switches it.
 * @param {{ what: string, on: boolean, does: [off: string, on: string], set: (on: boolean) => Promise<unknown> }} props */
function Switch({ what, on, does, set }) {
  const verb = on ? 'Switch off' : 'Switch on'
  const change = () =>
    ask({
      title: `${verb} ${what}?`,
      text: does[on ? 0 : 1],
      verb,
      danger: on,
      act: () => set(!on),
      undo: () => set(on),
      done: sentence(`${what} is ${on ? 'off' : 'on'}`),
    })
  return html`<${Level} level=${on ? 'ok' : 'warn'} label=${on ? 'on' : 'off'} />
    ${may('api') && html`<button type="button" aria-label=${`${verb} ${what}`} onClick=${change}>${verb}</button>`}`
}

/** @param {{ ssp: string }} props */
export function SeatsAndCenters({ ssp }) {
  const path = supplierPath(ssp)
  const supplier = useRead(
    () => /** @type {Promise<SupplierResource>} */ (call(path)),
    [ssp],
    readEvery,
  )
  const name = isolated(integration(ssp)?.name ?? ssp)
  /** The present values are shown after a change that was not made, too. @param {Parameters<typeof changeField>[1]} change */
  const change = (change) => changeField(ssp, change).finally(supplier.again)
  /** @param {'dsp_seats' | 'datacenters'} list @param {string} name */
  const switchOf = (list, name) => (/** @type {boolean} */ on) =>
    change({
      ...{ list, name, field: 'is_active', from: !on, to: on },
      inWords: (active) => (active ? 'on' : 'off'),
    })
  const allotment = (/** @type {DataCenter} */ { location, client_qps }) => {
    const set = (/** @type {number | null} */ from, /** @type {number | null} */ to) =>
      change({
        ...{ list: 'datacenters', name: location, field: 'client_qps', from, to },
        inWords: (value) => limit(/** @type {number | null} */ (value)),
      })
    const submit = withFields((field) => {
      const text = field('qps').trim()
      const next = text === '' ? null : Number(text)
      if (next === client_qps) return
      ask({
        title: `Change the allotment of ${isolated(location)}?`,
        text: `${isolated(location)} may send ${limit(next)} to ${name}; now: ${limit(client_qps)}. The nodes of the location share it. Requests above it get a no-bid.`,
        verb: 'Change',
        danger: next !== null && (client_qps === null || next < client_qps),
        act: () => set(client_qps, next),
        undo: () => set(next, client_qps),
        done: `The allotment of ${isolated(location)} is ${limit(next)}.`,
      })
    })
    return html`<form class="row" key=${client_qps} onSubmit=${submit}>
      <label class="pick"><${Term} name="Allotment" /><input class="short" name="qps" type="number" min="0" step="1" defaultValue=${client_qps ?? ''} placeholder="no limit"
        aria-label=${`Allotment of ${location}, requests a second`} /></label><button type="submit" aria-label=${`Change the allotment of ${location}`}>Change</button></form>`
  }
  return html`<section class="sheet"><h2>Seats and data centers</h2>
    ${loaded(
      supplier,
      ({ dsp_seats: seats, datacenters: centers }) => html`
      <h3><${Term} name="Seats" text=${glossary['Seat']} /></h3>
      ${seats.length === 0 && html`<p class="soft">None are listed: bids of every seat pass.</p>`}
      <ul class="lines">${seats.map(
        (seat) =>
          html`<li key=${seat.name}><span><strong>${seat.name}</strong> <small>${isolated(seat.name_external)}${seat.qps.map(
            ({ location, value }) => `, ${isolated(location)} ${limit(value)}`,
          )}</small></span>
          <${Switch} what=${`seat ${isolated(seat.name)}`} on=${seat.is_active} set=${switchOf('dsp_seats', seat.name)}
            does=${[
              `Bids of seat ${isolated(seat.name)} are removed from every bid response of ${name}, on every node within 2 seconds.`,
              `Bids of seat ${isolated(seat.name)} pass again in the bid responses of ${name}, on every node within 2 seconds.`,
            ]} /></li>`,
      )}</ul>
      <h3><${Term} name="Data centers" text=${glossary['Data center']} /></h3>
      ${centers.length === 0 && html`<p class="soft">None are listed: every data center is on and has no limit.</p>`}
      <ul class="lines">${centers.map(
        (center) =>
          html`<li key=${center.location}><span><strong>${center.location}</strong> <small>${limit(center.client_qps)}</small></span>
          <${Switch} what=${`data center ${isolated(center.location)}`} on=${center.is_active} set=${switchOf('datacenters', center.location)}
            does=${[
              `${name} gets no bid request from ${isolated(center.location)}: callers there get a no-bid at once. Within 2 seconds.`,
              `${name} gets bid requests from ${isolated(center.location)} again, within 2 seconds.`,
            ]} />
          ${may('api') && allotment(center)}</li>`,
      )}</ul>
      ${
        may('api') &&
        html`<${NewSeat} path=${path} name=${name} listed=${{ seats, centers }} again=${supplier.again} />
        <${NewCenter} path=${path} name=${name} centers=${centers} again=${supplier.again} />`
      }`,
    )}</section>`
}

/** Adds a seat. Its name and allotments stay as they are added.
 * @param {{ path: string, name: string, listed: { seats: SupplierResource['dsp_seats'], centers: DataCenter[] }, again: () => Promise<void> }} props */
function NewSeat({ path, name, listed: { seats, centers }, again }) {
  const submit = withFields((field, form) => {
    const seat = field('seat').trim()
    const qps = centers.flatMap(({ location }) => {
      const value = field(`qps ${location}`).trim()
      return value === '' ? [] : [{ location, value: Number(value) }]
    })
    const allotted = qps.map(
      ({ location, value }) => `${integer(value)} requests / s in ${isolated(location)}`,
    )
    const taken = seats.some((known) => known.name === seat)
    ask({
      title: `Add seat ${isolated(seat)}?`,
      text: `Seat ${isolated(seat)} is added to ${name}, switched on, with ${allotted.join(', ') || 'no allotment'}. ${
        taken ? 'There is a seat with this name.' : ''
      } It can be switched off later; its name and allotments cannot be changed.`,
      verb: 'Add seat',
      act: async () => {
        const external = field('external').trim() || seat
        const added = { name: seat, name_external: external, is_active: true, qps }
        await call(path, 'POST', { dsp_seats: [added] })
        form.reset()
        await again()
      },
      done: `Seat ${isolated(seat)} is added.`,
    })
  })
  return html`<details><summary>Add a seat</summary>
    <form class="fields" onSubmit=${submit}>
      <label>Name in bid responses <input name="seat" required maxlength="255" autocomplete="off" /></label>
      <label>External name <input name="external" maxlength="255" placeholder="the same" autocomplete="off" /></label>
      ${centers.map(
        ({ location }) =>
          html`<label key=${location}><span><${Term} name="Allotment" /> <bdi>${location}</bdi>, requests / s</span>
          <input name=${`qps ${location}`} type="number" min="0" step="1" placeholder="none" aria-label=${`Allotment in ${location}, requests a second`} /></label>`,
      )}
      <div class="row"><button type="submit">Add seat</button></div>
    </form></details>`
}

/** Adds a data center, which is on and then has a switch and an allotment.
 * @param {{ path: string, name: string, centers: DataCenter[], again: () => Promise<void> }} props */
function NewCenter({ path, name, centers, again }) {
  const listed = new Set(centers.map(({ location }) => location))
  const unlisted = [...new Set(live.value?.nodes.map(({ location }) => location))].filter(
    (location) => !listed.has(location),
  )
  const submit = withFields((field, form) => {
    const location = field('location').trim()
    const value = field('qps').trim()
    const qps = value === '' ? null : Number(value)
    ask({
      title: `Add data center ${isolated(location)}?`,
      text: `${isolated(location)} is listed for ${name}: it may send ${limit(qps)}, and can be switched off. Nodes of other data centers that are not listed go on without a limit.`,
      verb: 'Add data center',
      act: async () => {
        await call(path, 'POST', { datacenters: [{ location, client_qps: qps }] })
        form.reset()
        await again()
      },
      done: `Data center ${isolated(location)} is added.`,
    })
  })
  return html`<details><summary>Add a data center</summary>
    <form class="fields" onSubmit=${submit}>
      <label>Location of its nodes <input name="location" required maxlength="255" list="locations" autocomplete="off" />
        <datalist id="locations">${unlisted.map((location) => html`<option key=${location} value=${location}></option>`)}</datalist></label>
      <label>Allotment, requests / s <input name="qps" type="number" min="0" step="1" placeholder="no limit" /></label>
      <div class="row"><button type="submit">Add data center</button></div>
    </form></details>`
}
