/** Adds a seat to a supplier. Its name and allotments stay as they are added. */
import { ask } from '../actions.js'
import { whole } from '../format.js'
import { html } from '../html.js'
import { Term } from '../parts.js'
import { call } from '../session.js'

/** @typedef {{ location: string, value: number | null }} Allotment */

/** @param {{ ssp: string, name: string, locations: string[], taken: string[], again: () => Promise<void> }} props */
export function NewSeat({ ssp, name, locations, taken, again }) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = /** @type {HTMLFormElement} */ (event.target)
    const fields = new FormData(form)
    const text = (/** @type {string} */ field) => String(fields.get(field) ?? '').trim()
    const seat = text('seat')
    const qps = locations.flatMap((location) => {
      const value = text(`qps ${location}`)
      return value === '' ? [] : [{ location, value: Number(value) }]
    })
    const allotted = qps.map(({ location, value }) => `${whole(value)} requests / s in ${location}`)
    ask({
      title: `Add seat ${seat}?`,
      text: `Seat ${seat} is added to ${name}, switched on, with ${allotted.join(', ') || 'no allotment'}. ${
        taken.includes(seat) ? 'There is a seat with this name.' : ''
      } It can be switched off later; its name and allotments cannot be changed.`,
      verb: 'Add seat',
      act: async () => {
        const added = { name: seat, name_external: text('external') || seat, is_active: true, qps }
        await call(`/api/svc/ssp/${encodeURIComponent(ssp)}/`, 'POST', { dsp_seats: [added] })
        form.reset()
        await again()
      },
      done: `Seat ${seat} is added.`,
    })
  }
  return html`<details><summary>Add a seat</summary>
    <form class="fields" onSubmit=${submit}>
      <label>Name in bid responses <input name="seat" required maxlength="255" autocomplete="off" /></label>
      <label>External name <input name="external" maxlength="255" placeholder="the same" autocomplete="off" /></label>
      ${locations.map(
        (
          location,
        ) => html`<label key=${location}><span><${Term} name="Allotment" /> ${location}, requests / s</span>
          <input name=${`qps ${location}`} type="number" min="0" step="1" placeholder="none" aria-label=${`Allotment in ${location}, requests a second`} /></label>`,
      )}
      <div class="row"><button type="submit">Add seat</button></div>
    </form></details>`
}
