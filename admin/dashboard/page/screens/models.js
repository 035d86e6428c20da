import { html } from '../html.js'

export function Models() {
  return html`<h1>Models</h1>`
}
