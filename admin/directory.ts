/**
 * The snapshot of suppliers, holds and guards that bid traffic uses. It is pushed at each change and kept if the store is
 * lost.
 */
import { getOrAdd } from '../opd/base/get-or-add.ts'
import type { Log } from '../opd/base/log.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import { readUnchecked } from './store/alerts.ts'
import { type EndpointOverride, readOverrides } from './store/endpoint-overrides.ts'
import type { Store } from './store/index.ts'
import { readHolds } from './store/suppliers.ts'

/** The state of one supplier that bid traffic uses. */
interface SupplierState {
  inactiveSeats: ReadonlySet<string>
  /** At least one seat is listed, and none of them is active. */
  allSeatsInactive: boolean
  /** By location. A location that is not listed is active and unlimited. */
  datacenters: ReadonlyMap<string, { active: boolean; clientQps: number | null }>
}

export interface DirectorySnapshot {
  suppliers: ReadonlyMap<string, SupplierState>
  /** Integrations held at factor 1; `*` holds all. */
  holds: ReadonlySet<string>
  /** Integrations for which a guard acts, since none of their money can be checked: they are held at factor 1 as well. */
  unchecked: ReadonlySet<string>
  /** What operators have decided of endpoints. */
  overrides: readonly EndpointOverride[]
}

interface Directory {
  snapshot(): DirectorySnapshot
  /** @param listener called after each later read; if it throws, the store is read again within half a second */
  onChange(listener: (snapshot: DirectorySnapshot) => void): void
  /** Reads the store now and resolves after all listeners have been called. */
  refresh(): Promise<void>
}

async function load(store: Store): Promise<DirectorySnapshot> {
  const { db } = store
  const [seats, active, datacenters, holds, unchecked, overrides] = await Promise.all([
    db.selectFrom('seats').select(['supplier', 'name']).where('is_active', '=', 0).execute(),
    db.selectFrom('seats').select('supplier').distinct().where('is_active', '=', 1).execute(),
    db.selectFrom('datacenters').selectAll().execute(),
    readHolds(db),
    readUnchecked(db),
    readOverrides(db, store.clock()),
  ])
  const noState = () => ({
    inactiveSeats: new Set<string>(),
    allSeatsInactive: false,
    datacenters: new Map<string, { active: boolean; clientQps: number | null }>(),
  })
  const suppliers = new Map<string, ReturnType<typeof noState>>()
  const stateOf = (id: string) => getOrAdd(suppliers, id, noState)
  for (const { supplier, name } of seats) stateOf(supplier).inactiveSeats.add(name)
  const haveActiveSeats = new Set(active.map(({ supplier }) => supplier))
  for (const [supplier, state] of suppliers) state.allSeatsInactive = !haveActiveSeats.has(supplier)
  for (const { supplier, location, client_qps, is_active } of datacenters)
    stateOf(supplier).datacenters.set(location, {
      active: is_active === 1,
      clientQps: client_qps === null ? null : Number(client_qps),
    })
  return { suppliers, holds, unchecked, overrides }
}

/**
 * Reads the directory, and again after each change of any node.
 *
 * @param store whose changes are followed until it is closed
 * @param log says that a later read failed; the directory then stays as it is
 * @throws if the store is lost
 */
export async function createDirectory(store: Store, log: Log): Promise<Directory> {
  let current = await load(store)
  const listeners: ((snapshot: DirectorySnapshot) => void)[] = []
  // one read at a time: the result of an older read must not replace that of a newer one
  const read = oneAtATime(async () => {
    current = await load(store)
    for (const listener of listeners) listener(current)
  })
  store.onChange(read)
  return {
    snapshot: () => current,
    onChange(listener) {
      listeners.push(listener)
    },
    async refresh() {
      await read().catch((error: Error) =>
        log.error({ err: error.message }, 'suppliers could not be read, the last snapshot is kept'),
      )
    },
  }
}
