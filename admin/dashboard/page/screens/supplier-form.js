/**
 * The configuration of a supplier of the API: a form whose changes are shown before they are made, its versions, and the way
 * back to each of them. Operators of account * only.
 */
import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { ask } from '../actions.js'
import { Conflict } from '../changes.js'
import { loaded, useRead } from '../components.js'
import { time } from '../format.js'
import { withFields, withValue } from '../forms.js'
import { html } from '../html.js'
import { ApiError, call, request } from '../session.js'
import { may, readLive, seesAll } from '../state.js'

/**
 * @typedef {{ pointer: string, before?: unknown, after?: unknown }} Difference
 * @typedef {Record<string, any> & { id: string, origin: 'file' | 'api', version?: number }} Configured
 * @typedef {{ version: number, at: string, who: string, action: string, supplier: object | null, difference: Difference[] }} Version
 */

/** Changes that were made here; what shows the configuration reads it anew. */
export const changesMade = signal(0)

const root = '/api/svc/suppliers/'
/** @param {string} id */
export const pathOf = (id) => `${root}${encodeURIComponent(id)}/`

/** @param {unknown} value */
const shown = (value) =>
  value === undefined ? 'not set' : typeof value === 'string' ? value : JSON.stringify(value)

/** A difference in words, such as `opd.share: 0.1 → 0.5`. @param {Difference} difference */
const differenceLine = ({ pointer, before, after }) =>
  pointer === ''
    ? before === undefined
      ? `added: ${shown(after)}`
      : `deleted: ${shown(before)}`
    : `${pointer.slice(1).replaceAll('/', '.')}: ${shown(before)} → ${shown(after)}`

/** Versions of others that a refusal names. */
const mostNamed = 20

/** Who changed what after a version, for a change of it that is refused. @param {string} id @param {string | null | undefined} etag @param {unknown} error */
async function explained(id, etag, error) {
  if (!(error instanceof ApiError) || error.status !== 412) return error
  const seen = Number(etag?.replaceAll('"', ''))
  const versions = await call(`${pathOf(id)}history/?limit=${mostNamed}`)
  const later = /** @type {Version[]} */ (versions).filter(({ version }) => version > seen)
  return new Conflict(
    later.length === 0
      ? error.message
      : later
          .reverse()
          .map(
            ({ who, at: instant, difference }) =>
              `${who} changed it, ${time(instant)}: ${difference.map(differenceLine).join('; ')}`,
          )
          .join('. Then '),
  )
}

/**
 * Sends a change, or with `dryRun` asks what it would change. `etag`: the version that is changed, and in the answer the new one.
 * @param {string} id @param {{ method: string, path?: string, body?: object, etag?: string | null }} change
 */
async function send(id, { method, path = '', body, etag }, dryRun = false) {
  const headers = /** @type {Record<string, string>} */ (etag ? { 'if-match': etag } : {})
  const url = `${path === root ? root : pathOf(id) + path}${dryRun ? '?dryRun=true' : ''}`
  try {
    const response = await request(url, method, body, headers)
    const value = response.status === 204 ? null : await response.json()
    return { value, etag: response.headers.get('etag') }
  } catch (error) {
    throw await explained(id, etag, error)
  }
}

/**
 * Shows what a change would do; the dialog then makes it. `version`: to which an undo returns, if nobody has changed the supplier
 * after this change. `again` reads what the change is based on, `made` is called after it was made, and `refused` if it was not.
 * @param {string} id
 * @param {Parameters<typeof send>[1]} change
 * @param {{ title: string, text: string, verb: string, done: string, danger?: boolean, version?: number | undefined,
 *   again: () => Promise<unknown>, made?: () => void, refused?: (error: unknown) => void }} words
 */
export async function review(id, change, { again, version, made, refused, ...words }) {
  const dryRun = send(id, change, true)
  // without the present version, the same change would be refused for ever
  const { value } = await dryRun.catch(async (error) => {
    refused?.(error)
    if (error instanceof Conflict) await again()
    throw error
  })
  const changes = /** @type {Difference[]} */ (value.difference).map(differenceLine)
  if (changes.length === 0) throw new Error('Nothing differs.')
  let etag = /** @type {string | null} */ (null)
  const act = async () => {
    try {
      ;({ etag } = await send(id, change))
      made?.()
    } catch (error) {
      refused?.(error)
      throw error
    }
  }
  const undo = () => send(id, { ...revertTo(version ?? 0), etag })
  ask({
    ...words,
    changes,
    act: () => act().finally(again),
    ...(version === undefined ? {} : { undo: () => undo().finally(again) }),
  })
}

/** @param {number} version */
const revertTo = (version) => ({ method: 'POST', path: 'revert/', body: { version } })

/** The number of a field; null, which removes the key, where it is empty. @param {string} text */
const numberOf = (text) => (text.trim() === '' ? null : Number(text))

/** @type {readonly (readonly [value: string, label: string])[]} */
const opdStates = [
  ['false', 'off'],
  ['shadow', 'shadow: decided and recorded, not applied'],
  ['true', 'on'],
]

/** @type {readonly [key: string, label: string, most: string, preset: string][]} */
const opdNumbers = [
  ['share', 'Share of auctions that OPD prices', '1', '1'],
  ['minWinRate', 'Kept wins, at least', '1', '0.97'],
  ['minSpend', 'Kept spend, at least', '1', '0.97'],
  ['minFactor', 'Lowest factor', '1', '0.7'],
  ['holdout', 'Holdout', '0.5', '0.02'],
]
/** @type {readonly [key: string, label: string][]} */
const caps = [
  ['perBid', 'Most that OPD takes off one bid, CPM'],
  ['perDay', 'Most that OPD takes off a day'],
]

/** The values of a patch that differ from `from`; undefined: none. @param {any} patch @param {any} from @returns {any} */
function changed(patch, from) {
  const entries = Object.entries(patch).flatMap(([key, value]) => {
    const was = from?.[key]
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
      const inner = changed(value, was)
      return inner === undefined ? [] : [[key, inner]]
    }
    const same = JSON.stringify(value) === JSON.stringify(was ?? null)
    return same ? [] : [[key, value]]
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}

/** Whether OPD is off, and nothing else is said of it. @param {any} opd */
const isUnset = ({ enabled, caps: limits, ...numbers }) =>
  enabled === false &&
  [...Object.values(numbers), ...Object.values(limits)].every((value) => value === null)

/** The fields of the form as a patch. @param {(name: string) => string} field @param {Record<string, unknown>} value */
function patchOf(field, value) {
  const state = field('enabled')
  const opd = {
    enabled: state === 'shadow' ? state : state === 'true',
    ...Object.fromEntries(opdNumbers.map(([key]) => [key, numberOf(field(key))])),
    caps: Object.fromEntries(caps.map(([key]) => [key, numberOf(field(key))])),
  }
  return {
    name: field('name').trim() || null,
    endpoints: linesOf(field('endpoints')),
    timeout: field('timeout').trim() || null,
    ...reachPatch(value, reachOf(field)),
    ...(value['opd'] === undefined && isUnset(opd) ? {} : { opd }),
  }
}

/** Endpoints, one a line: a URL, or JSON with a weight, a zone or a priority. @param {string} text */
const linesOf = (text) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => (line.startsWith('{') ? jsonOf(line, 'Endpoints') : line))

/** @param {readonly unknown[]} endpoints */
const textOfLines = (endpoints) =>
  endpoints
    .map((endpoint) => (typeof endpoint === 'string' ? endpoint : JSON.stringify(endpoint)))
    .join('\n')

/** @param {string} text @param {string} field */
function jsonOf(text, field) {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${field}: ${text.slice(0, 60)} is not JSON.`)
  }
}

/** Keys that have a field of their own, and those that are one object in JSON. */
const ownKeys = ['protocol', 'canary', 'mirror']
const jsonKeys = ['tls', 'headers', 'healthCheck', 'outliers', 'discovery', 'callers']
const reachKeys = [...ownKeys, ...jsonKeys]
/** Keys of a supplier that the form has, or that are no settings. */
const shownKeys = new Set([
  ...[...reachKeys, 'id', 'account', 'origin', 'version', 'stored_version'],
  ...['name', 'endpoints', 'timeout', 'opd'],
])

/** @param {Record<string, unknown>} value */
function jsonText(value) {
  const entries = jsonKeys.flatMap((key) => (value[key] === undefined ? [] : [[key, value[key]]]))
  return entries.length === 0 ? '' : JSON.stringify(Object.fromEntries(entries), null, 2)
}

const jsonLabel = 'TLS, headers and checks'

/** @param {string} text @returns {Record<string, unknown>} */
function jsonFieldOf(text) {
  if (text.trim() === '') return {}
  const value = jsonOf(text, jsonLabel)
  const other = Object.keys(value).find((key) => !jsonKeys.includes(key))
  if (other !== undefined)
    throw new Error(
      ownKeys.includes(other)
        ? `${jsonLabel}: ${other} has a field of its own.`
        : `${jsonLabel}: ${other} is not one of ${jsonKeys.join(', ')}.`,
    )
  return value
}

/** How endpoints are reached and watched, from the fields. @param {(name: string) => string} field @returns {Record<string, unknown>} */
function reachOf(field) {
  const canary = linesOf(field('canary'))
  const mirror = field('mirror').trim()
  const part = (/** @type {string} */ name) =>
    field(name).trim() === '' ? {} : { share: Number(field(name)) }
  return {
    ...(field('protocol') === '' ? {} : { protocol: field('protocol') }),
    ...(canary.length === 0 ? {} : { canary: { endpoints: canary, ...part('canaryShare') } }),
    ...(mirror === '' ? {} : { mirror: { endpoint: mirror, ...part('mirrorShare') } }),
    ...jsonFieldOf(field('reach')),
  }
}

/** A merge patch that makes `was` equal to `next`: what `next` lacks is null. @param {any} was @param {any} next @returns {any} */
function replacing(was, next) {
  const isObject = (/** @type {any} */ value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
  if (!isObject(was) || !isObject(next)) return next
  const removed = Object.keys(was).filter((key) => next[key] === undefined)
  return {
    ...Object.fromEntries(removed.map((key) => [key, null])),
    ...Object.fromEntries(Object.keys(next).map((key) => [key, replacing(was[key], next[key])])),
  }
}

/** @param {Record<string, unknown>} value @param {Record<string, unknown>} next */
const reachPatch = (value, next) =>
  Object.fromEntries(
    reachKeys.flatMap((key) =>
      value[key] === undefined && next[key] === undefined
        ? []
        : [[key, next[key] === undefined ? null : replacing(value[key], next[key])]],
    ),
  )

/** @type {readonly (readonly [value: string, label: string])[]} */
const protocols = [
  ['', 'HTTP/1.1'],
  ['http/1.1', 'HTTP/1.1, always'],
  ['h2', 'HTTP/2'],
  ['auto', 'HTTP/2 where the endpoint offers it'],
]
const jsonHint = `{"headers": {"secretFrom": {"x-api-key": {"file": "secrets/key"}}}, "healthCheck": {"path": "/health"}}`

/** @param {{ name: string, label: string, value: unknown }} props */
const Share = ({ name, label, value }) =>
  html`<label>${label} <input class="short" name=${name} type="number" min="0" max="1" step="any" defaultValue=${value ?? ''} placeholder="0.05" /></label>`

/**
 * A choice. What a person chose stays when the page reads its figures, and when `preset` becomes another.
 * @param {{ name: string, label: string, preset: string, options: readonly (readonly [value: string, label: string])[] }} props
 */
function Choice({ name, label, preset, options }) {
  const [chosen, choose] = useState(/** @type {string | null} */ (null))
  return html`<label>${label} <select name=${name} onChange=${withValue(choose)}>${options.map(
    ([value, text]) =>
      html`<option key=${value} value=${value} selected=${value === (chosen ?? preset)}>${text}</option>`,
  )}</select></label>`
}

/** @param {{ value: Record<string, any> }} props */
const ReachFields = ({ value: { protocol = '', canary, mirror, ...value } }) =>
  html`<label>${jsonLabel} of the endpoints, JSON (<code>${jsonKeys.join(', ')}</code>) <textarea name="reach" rows="4" spellcheck="false" placeholder=${jsonHint} defaultValue=${jsonText(value)}></textarea></label>
    <${Choice} name="protocol" label="Protocol" preset=${protocol} options=${protocols} />
    <label>Canary, a URL a line <textarea name="canary" rows="2" placeholder="no canary" defaultValue=${textOfLines(canary?.endpoints ?? [])}></textarea></label>
    <${Share} name="canaryShare" label="Share of auctions of the canary" value=${canary?.share} />
    <label>Mirror, a URL <input name="mirror" placeholder="no mirror" autocomplete="off" defaultValue=${mirror?.endpoint ?? ''} /></label>
    <${Share} name="mirrorShare" label="Share of requests that are mirrored" value=${mirror?.share} />`

/** Names of keys that this form leaves as they are. @param {{ value: Record<string, unknown> }} props */
function OtherKeys({ value }) {
  const others = Object.keys(value).filter((key) => !shownKeys.has(key))
  return html`<p class="soft">Other keys are set through the API or with <code>bidweir apply</code>${
    others.length > 0 && `; this form leaves ${others.join(', ')} as they are`
  }.</p>`
}

/**
 * The fields have presets, not values: if a colleague changes the supplier, those that nobody has touched show the change, and what
 * was typed stays. `made` is called after a change.
 * @param {{ value: Configured, etag: string | null, again: () => Promise<unknown>, made: () => void }} props
 */
function Form({ value, etag, again, made }) {
  const [fault, setFault] = useState('')
  const [conflict, setConflict] = useState('')
  const refused = (/** @type {unknown} */ error) => {
    if (error instanceof Conflict) setConflict(error.message)
  }
  const { id, opd = {} } = value
  const submit = withFields(async (field) => {
    setFault('')
    setConflict('')
    try {
      const patch = changed(patchOf(field, value), value)
      if (patch === undefined) throw new Error('Nothing differs.')
      await review(
        id,
        { method: 'PATCH', body: patch, etag },
        {
          title: `Change ${id}?`,
          text: 'Every node acts on this within 2 seconds. No request is lost.',
          verb: 'Apply',
          done: `${id} is changed.`,
          danger: patch.opd?.enabled === true,
          version: value.version,
          ...{ again, made, refused },
        },
      )
    } catch (error) {
      if (!(error instanceof Conflict)) setFault(/** @type {Error} */ (error).message)
    }
  })
  return html`<form class="fields" onSubmit=${submit}>
    <label>Name <input name="name" maxlength="255" defaultValue=${value['name'] ?? ''} placeholder=${id} autocomplete="off" /></label>
    <label>Endpoints, one a line <textarea name="endpoints" rows="3" defaultValue=${textOfLines(value['endpoints'] ?? [])}></textarea></label>
    <label>Timeout <input class="short" name="timeout" defaultValue=${value['timeout'] ?? ''} placeholder="120ms" autocomplete="off" /></label>
    <${ReachFields} value=${value} />
    <${Choice} name="enabled" label="OPD" preset=${String(opd.enabled ?? false)} options=${opdStates} />
    ${opdNumbers.map(
      ([key, label, most, preset]) =>
        html`<label key=${key}>${label} <input class="short" name=${key} type="number" min="0" max=${most} step="any" defaultValue=${opd[key] ?? ''} placeholder=${preset} /></label>`,
    )}
    ${caps.map(
      ([key, label]) =>
        html`<label key=${key}>${label} <input class="short" name=${key} type="number" min="0" step="any" defaultValue=${opd.caps?.[key] ?? ''} placeholder="no cap" /></label>`,
    )}
    <${OtherKeys} value=${value} />
    ${
      conflict !== '' &&
      html`<p class="box warn" role="alert">Not changed: ${conflict}. What you entered is kept, and the other fields are those of now.
        Show the difference again, to apply yours on top of it. <button type="button" onClick=${made}>Discard mine</button></p>`
    }
    ${fault !== '' && html`<p class="fault" role="alert">${fault}</p>`}
    <div class="row"><button type="submit" class="primary">Show the difference</button></div>
  </form>`
}

/** @param {{ id: string, versions: Version[], now: number, etag: string | null, again: () => Promise<unknown> }} props */
function Versions({ id, versions, now, etag, again }) {
  const [fault, setFault] = useState('')
  const revert = async (/** @type {number} */ version) => {
    setFault('')
    try {
      await review(
        id,
        { ...revertTo(version), etag },
        {
          title: `Return ${id} to version ${version}?`,
          text: 'Every node acts on this within 2 seconds. No request is lost.',
          verb: 'Revert',
          done: `${id} is as it was in version ${version}.`,
          version: now,
          again,
        },
      )
    } catch (error) {
      setFault(/** @type {Error} */ (error).message)
    }
  }
  return html`<h3>Versions</h3>${fault !== '' && html`<p class="fault" role="alert">${fault}</p>`}
    <ul class="lines">${versions.map(
      ({ version, at: instant, who, supplier, difference }) =>
        html`<li key=${version}><span><strong>${version}</strong> <small>${who}, ${time(instant)}: ${difference.map(differenceLine).join('; ')}</small></span>
        ${
          version !== now &&
          supplier !== null &&
          html`<button type="button" aria-label=${`Revert to version ${version}`} onClick=${() => revert(version)}>Revert</button>`
        }</li>`,
    )}</ul>`
}

/** @param {{ ssp: string }} props */
export function SupplierForm({ ssp }) {
  const allowed = may('operator') && seesAll.value
  const found = useRead(async () => {
    if (!allowed) return null
    const response = await request(pathOf(ssp))
    const value = /** @type {Configured} */ (await response.json())
    const versions = /** @type {Version[]} */ (
      value.origin === 'api' ? await call(`${pathOf(ssp)}history/?limit=20`) : []
    )
    return { value, versions, etag: response.headers.get('etag') }
  }, [ssp, allowed])
  /** Counts the times that the form begins anew. */
  const [round, setRound] = useState(0)
  if (!allowed) return null
  const again = () => {
    changesMade.value++
    return Promise.all([found.again(), readLive()])
  }
  return html`<section class="sheet"><h2>Configure</h2>
    ${loaded(found, (block) =>
      block === null
        ? null
        : block.value.origin === 'file'
          ? html`<p class="soft">The configuration file sets this supplier: change it there.</p>`
          : html`<${Form} key=${round} value=${block.value} etag=${block.etag} again=${again} made=${() => setRound(round + 1)} />
            <${Versions} id=${ssp} versions=${block.versions} now=${block.value.version ?? 0} etag=${block.etag} again=${again} />`,
    )}</section>`
}

/** Adds a supplier of the API, with OPD off. */
export function NewSupplier() {
  const [fault, setFault] = useState('')
  if (!may('operator') || !seesAll.value) return null
  const submit = withFields(async (field, form) => {
    setFault('')
    const id = field('id').trim()
    const account = field('account').trim()
    try {
      const body = {
        id,
        ...(account === '' ? {} : { account }),
        endpoints: linesOf(field('endpoints')),
        ...(field('timeout').trim() === '' ? {} : { timeout: field('timeout').trim() }),
        ...reachOf(field),
      }
      await review(
        id,
        { method: 'POST', path: root, body },
        {
          title: `Add supplier ${id}?`,
          text: `Bid requests to /bid/${id} are answered on every node within 2 seconds. OPD is off.`,
          verb: 'Add supplier',
          done: `Supplier ${id} is added.`,
          again: readLive,
          made: () => form.reset(),
        },
      )
    } catch (error) {
      setFault(/** @type {Error} */ (error).message)
    }
  })
  return html`<details class="sheet"><summary>Add a supplier</summary>
    <form class="fields" onSubmit=${submit} autocomplete="off">
      <label>Id, part of the path /bid/… <input name="id" required maxlength="63" pattern="[a-z0-9][a-z0-9_\\-]*" title="a-z, 0-9, _ and -" /></label>
      <label>Account whose users see it <input name="account" maxlength="255" placeholder="account * only" /></label>
      <label>Endpoints, one a line <textarea name="endpoints" rows="3" required></textarea></label>
      <label>Timeout <input class="short" name="timeout" placeholder="120ms" /></label>
      <${ReachFields} value=${{}} />
      ${fault !== '' && html`<p class="fault" role="alert">${fault}</p>`}
      <div class="row"><button type="submit">Show the difference</button></div>
    </form></details>`
}
