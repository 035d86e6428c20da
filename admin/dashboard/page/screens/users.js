import { html } from '../html.js'

export function Users() {
  return html`<h1>Users</h1>`
}
