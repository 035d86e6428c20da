/** The running configuration, read only. The API hides its secrets. */
import { useState } from 'preact/hooks'
import { loaded, useRead } from '../components.js'
import { Search } from '../forms.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { seesAll } from '../state.js'
import { NoSupplier } from './supplier-common.js'
import { NewSupplier } from './supplier-form.js'

/** As YAML. @param {unknown} value @param {string} indent @returns {string} */
function yaml(value, indent = '') {
  if (value === null || typeof value !== 'object') return ` ${JSON.stringify(value)}\n`
  const entries = Array.isArray(value)
    ? value.map((element) => ['-', element])
    : Object.entries(value)
  if (entries.length === 0) return Array.isArray(value) ? ' []\n' : ' {}\n'
  const lines = entries.map(
    ([key, inner]) =>
      `${indent}${Array.isArray(value) ? '-' : `${key}:`}${yaml(inner, `${indent}  `)}`,
  )
  return `\n${lines.join('')}`
}

export function Configuration() {
  const [search, setSearch] = useState('')
  const found = useRead(
    () =>
      /** @type {Promise<{ suppliers: { id: string }[], [name: string]: unknown }>} */ (
        call('/api/svc/configuration/')
      ),
    [],
  )
  const text = search.trim().toLowerCase()
  const part = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const body = yaml(value).replace(/^\n/, '')
    if (!`${name} ${body}`.toLowerCase().includes(text)) return null
    if (value === null || typeof value !== 'object') return html`<p key=${name}>${name}:${body}</p>`
    return html`<details key=${name} open=${text !== '' || undefined}><summary>${name}</summary><pre tabindex="0" role="region" aria-label=${name}>${body}</pre></details>`
  }
  return html`<div class="row"><h1>Configuration</h1><${Search} value=${search} enter=${setSearch} /></div>
    <p class="soft">As the answering node runs it, with defaults; secrets are hidden. Times are in milliseconds. To change it, change the file; the service reads it again by itself. Suppliers that are added here are changed on their pages.
      ${!seesAll.value && ' You see the suppliers of your account.'}</p>
    <${NewSupplier} />
    ${loaded(
      found,
      ({ suppliers, ...rest }) => html`
        <section class="sheet"><h2>Service</h2>${Object.entries(rest).map(([name, value]) => part(name, value))}</section>
        <section class="sheet"><h2>Suppliers (${suppliers.length})</h2>${suppliers.length === 0 && html`<${NoSupplier} />`}${suppliers.map((supplier) => part(supplier.id, supplier))}</section>`,
    )}`
}
