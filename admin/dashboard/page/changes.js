/**
 * Changes that never overwrite those of a colleague: each reads the present value first, with its version, and is made only if
 * the value is still the one that the user saw. So does an undo.
 */
import { time } from './format.js'
import { ApiError, call, request } from './session.js'

/** @import { AuditEntry } from '../../management/audit.ts' */
/** @import { SupplierResource } from '../../management/schema.ts' */

/** The value was changed meanwhile, and this change was not made. */
export class Conflict extends Error {}

/** Reads of the present value, while others change other parts of the same supplier. */
const attempts = 5

/**
 * @template T @typedef {object} Change
 * @property {T} from The value that the user saw.
 * @property {() => Promise<{ value: T, version: string | null }>} read
 * @property {(version: string | null) => Promise<unknown>} write
 * @property {(value: T) => string} inWords
 * @property {string} trail The query of the audit entries among which the colleague's is.
 * @property {(entry: AuditEntry) => boolean} made Whether an entry changed the value.
 */

/** Who made the newest of these changes, and when; '' if the audit trail does not say. @param {Change<any>} change */
async function author({ trail, made }) {
  const entries = /** @type {AuditEntry[]} */ (await call(`/api/svc/audit/?limit=100&${trail}`))
  const entry = entries.find(made)
  return entry === undefined ? '' : `${entry.who} changed it, ${time(entry.at)}`
}

/** Throws a Conflict if the value is no longer `from`. @template T @param {Change<T>} change */
export async function changeIfSame(change) {
  for (let attempt = 1; ; attempt++) {
    const { value, version } = await change.read()
    if (value !== change.from) {
      const by = (await author(change).catch(() => '')) || 'it was changed meanwhile'
      throw new Conflict(`${by}. It is now: ${change.inWords(value)}`)
    }
    try {
      return await change.write(version)
    } catch (error) {
      const isOutdated = error instanceof ApiError && error.status === 412
      if (!isOutdated || attempt === attempts) throw error
    }
  }
}

/** @param {string} ssp */
export const supplierPath = (ssp) => `/api/svc/ssp/${encodeURIComponent(ssp)}/`

const keys = /** @type {const} */ ({ dsp_seats: 'name', datacenters: 'location' })

/**
 * Changes one field of a seat or of a data center.
 * @template T
 * @param {string} ssp
 * @param {{ list: keyof typeof keys, name: string, field: string, from: T, to: T, inWords: (value: T) => string }} change
 */
export function changeField(ssp, { list, name, field, from, to, inWords }) {
  const path = supplierPath(ssp)
  const key = keys[list]
  /** @param {unknown} supplier @returns {T} */
  const valueIn = (supplier) => {
    const rows = /** @type {any} */ (supplier)?.[list] ?? []
    return rows.find((/** @type {any} */ row) => row[key] === name)?.[field]
  }
  return changeIfSame({
    from,
    inWords,
    trail: `ssp=${encodeURIComponent(ssp)}`,
    made: ({ before, after }) => valueIn(after) !== undefined && valueIn(before) !== valueIn(after),
    async read() {
      const response = await request(path)
      const supplier = /** @type {SupplierResource} */ (await response.json())
      return { value: valueIn(supplier), version: response.headers.get('etag') }
    },
    write: (version) =>
      call(path, 'PUT', { [list]: [{ [key]: name, [field]: to }] }, { 'if-match': version ?? '*' }),
  })
}
