/** The screen that is shown, from the fragment of the address: `#/supplier/acme?days=7`. */
import { signal } from '@preact/signals'

/** A part of an address that is not encoded properly is itself. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function read() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const [screen = '', ...rest] = path.split('/').map(decoded)
  return { screen: screen || 'suppliers', rest, query: new URLSearchParams(query) }
}

export const route = signal(read())
addEventListener('hashchange', () => {
  route.value = read()
  scrollTo(0, 0)
})

/** Changes a parameter of the screen without a new entry in the history. @param {Record<string, string>} values */
export function setQuery(values) {
  const { query } = read()
  for (const [name, value] of Object.entries(values))
    if (value === '') query.delete(name)
    else query.set(name, value)
  const [path = ''] = location.hash.split('?')
  const text = String(query)
  history.replaceState(null, '', `${path || '#/'}${text === '' ? '' : `?${text}`}`)
  route.value = read()
}
