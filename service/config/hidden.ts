/** The configuration as the console shows it: secrets are replaced by a word, credentials and queries of URLs by dots. */

const hidden = '(hidden)'
const secretName = /secret|password|keys?$|cert|token|authorization|cookie/i

function hideInUrl(text: string): string {
  // An address of several hosts is no URL.
  if (!URL.canParse(text)) return text.replace(/^([a-z+]+:\/\/)[^@/]*@/, '$1…@')
  if (!text.includes('://')) return text
  const url = new URL(text)
  const who = url.username === '' && url.password === '' ? '' : '…@'
  return `${url.protocol}//${who}${url.host}${url.pathname === '/' ? '' : url.pathname}${url.search === '' ? '' : '?…'}`
}

/**
 * `path` ends with the name of the value. Values below `callers.headers` may be credentials of callers, and those below
 * `headers.secretFrom` and `tracing.headers` are credentials of bidweir.
 */
function hide(value: unknown, path: readonly string[]): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  const [name = '', parent = ''] = path.toReversed()
  if (Array.isArray(value)) return value.map((item) => hide(item, path))
  if (typeof value === 'object')
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, hide(inner, [...path, key])]),
    )
  const below = (group: string) => path.includes(group) && name !== 'id'
  const isSecret =
    // of many receivers the path is a credential
    ((parent === 'dailyReport' || parent === 'alerts') && name === 'url') ||
    below('keys') ||
    below('secretFrom') ||
    (parent === 'headers' && (below('callers') || below('tracing')))
  if (isSecret || secretName.test(name)) return hidden
  return typeof value === 'string' ? hideInUrl(value) : value
}

/**
 * A copy of a part of a configuration that may be shown: secrets are replaced.
 *
 * @param part the part, with the names of keys as in the file, from the root of the configuration
 */
export const withoutSecrets = <Part extends object>(part: Part): Part => hide(part, []) as Part
