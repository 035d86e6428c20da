/** Log-in: by name and password with the embedded realm, else at the issuer. */
import { useState } from 'preact/hooks'
import { html } from '../html.js'
import { start } from '../issuer.js'
import { logIn, notice, settings } from '../session.js'

export function LogIn() {
  const [busy, setBusy] = useState(false)
  const { external } = settings
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
    notice.value = ''
    setBusy(true)
    try {
      if (external !== null) await start(external)
      else await logIn(String(form.get('username')), String(form.get('password')))
    } catch (error) {
      notice.value = /** @type {Error} */ (error).message
    } finally {
      setBusy(false)
    }
  }
  return html`<main class="log-in"><form onSubmit=${submit}>
    <h1>bidweir</h1>
    ${
      external === null
        ? html`<label>User <input name="username" autocomplete="username" required autofocus /></label>
          <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>`
        : html`<p>You log in at <strong>${new URL(external.issuer).host}</strong>.</p>`
    }
    <p class="fault" role="alert">${notice}</p>
    <button type="submit" class="primary" disabled=${busy} aria-busy=${busy}>${busy ? 'Working…' : 'Log in'}</button>
  </form></main>`
}
