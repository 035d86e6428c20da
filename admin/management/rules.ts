/**
 * The rules for creating and changing seats and data centers (SERVICE 4.3-4.5, 8; CONTRACT 8). Pure functions of the
 * stored rows and the request.
 */
import { isDeepStrictEqual } from 'node:util'
import { Problem, type ProblemFault } from '../http/problem.ts'
import type { ProblemCode } from '../http/problems.ts'
import type { SupplierRows } from '../store/suppliers.ts'
import type { DataCenter, QpsEntry, Seat } from '../store/tables.ts'
import type { CreateBody, UpdateBody } from './schema.ts'

export type ChangeResult =
  | { ok: true; after: { seats: Seat[]; datacenters: DataCenter[] }; changed: boolean }
  | { ok: false; problem: Problem }

interface Names {
  id: string
  name: string
  name_external: string
}

const refused = (code: ProblemCode, faults: ProblemFault[]): ChangeResult => ({
  ok: false,
  problem: new Problem(code, { faults }),
})

/**
 * `client_qps` of a location must not exceed the sum of the seats' values for it. A seat with null there has no limit, so
 * the location has none; a seat without an entry counts as 0. A null `client_qps` is always allowed.
 */
function allotmentFaults(
  seats: readonly Seat[],
  centers: readonly DataCenter[],
  asked: readonly { location: string }[],
) {
  const sums = new Map<string, number>()
  for (const { qps } of seats)
    for (const { location, value } of qps)
      sums.set(location, (sums.get(location) ?? 0) + (value ?? Number.POSITIVE_INFINITY))
  return centers.flatMap(({ location, client_qps }): ProblemFault[] => {
    const sum = sums.get(location) ?? 0
    if (client_qps === null || client_qps <= sum) return []
    const index = asked.findIndex((datacenter) => datacenter.location === location)
    return [
      {
        pointer: index < 0 ? '/datacenters' : `/datacenters/${index}/client_qps`,
        detail: `client_qps ${client_qps} of ${location} exceeds ${sum}, the sum of its seats' qps`,
      },
    ]
  })
}

function nameFaults(
  body: { [K in keyof Names]?: Names[K] | undefined },
  names: Names,
): ProblemFault[] {
  return (['id', 'name', 'name_external'] as const)
    .filter((key) => body[key] !== undefined && body[key] !== names[key])
    .map((key) => ({ pointer: `/${key}`, detail: `${key} cannot be changed` }))
}

/** The fields that were sent and differ from the stored entry, as conflicts. */
const conflictsWith = (row: object, sent: object, pointer: string, name: string): ProblemFault[] =>
  Object.entries(sent)
    .filter(([field, value]) => differs(row, field, value))
    .map(([field]) => ({
      pointer: `${pointer}/${field}`,
      detail: `${name} exists already with another ${field}`,
    }))

/** POST: adds seats and data centers. One that exists is ignored if nothing in it differs, and a conflict otherwise. */
export function planCreate(rows: SupplierRows, body: CreateBody, names: Names): ChangeResult {
  const wrongNames = nameFaults(body, names)
  if (wrongNames.length > 0) return refused('names_differ', wrongNames)
  const conflicts: ProblemFault[] = []
  const newSeats: Seat[] = []
  for (const [index, { name, name_external, is_active, qps }] of body.dsp_seats.entries()) {
    const current = rows.seats.find((seat) => seat.name === name)
    if (current === undefined)
      newSeats.push({
        name,
        name_external: name_external ?? name,
        is_active: is_active ?? true,
        qps: qps ?? [],
      })
    else
      conflicts.push(...conflictsWith(current, body.dsp_seats[index]!, `/dsp_seats/${index}`, name))
  }
  const newCenters: DataCenter[] = []
  for (const [index, sent] of body.datacenters.entries()) {
    const { location, client_qps = null, is_active = true } = sent
    const current = rows.datacenters.find((datacenter) => datacenter.location === location)
    if (current === undefined) newCenters.push({ location, client_qps, is_active })
    else conflicts.push(...conflictsWith(current, sent, `/datacenters/${index}`, location))
  }
  if (conflicts.length > 0) return refused('exists', conflicts)
  const seats = [...rows.seats, ...newSeats]
  const datacenters = [...rows.datacenters, ...newCenters]
  const faults = allotmentFaults(seats, datacenters, body.datacenters)
  if (faults.length > 0) return refused('allotment', faults)
  const changed = newSeats.length > 0 || newCenters.length > 0
  return { ok: true, after: { seats, datacenters }, changed }
}

const byLocation = (one: QpsEntry, other: QpsEntry) => (one.location < other.location ? -1 : 1)

/** Whether a sent field differs from the stored one. The order of locations is ignored. */
function differs(row: object, field: string, value: unknown): boolean {
  if (value === undefined) return false
  const current: unknown = row[field as keyof typeof row]
  if (field !== 'qps') return !isDeepStrictEqual(value, current)
  const [one, other] = [value, current].map((list) => (list as QpsEntry[]).toSorted(byLocation))
  return !isDeepStrictEqual(one, other)
}

/** By list: the field that identifies an entry, and the fields that PUT may change. */
const lists = {
  dsp_seats: { key: 'name', editable: ['is_active'] },
  datacenters: { key: 'location', editable: ['is_active', 'client_qps'] },
} as const

/** The stored entries with the fields that were sent. If a field that cannot be edited differs, it is a fault. */
function merged<T extends object>(
  list: keyof typeof lists,
  current: readonly T[],
  asked: readonly object[],
  faults: ProblemFault[],
): T[] {
  const { key, editable } = lists[list]
  const nameOf = (row: object): unknown => row[key as keyof typeof row]
  const next = current.map((row) => ({ ...row }))
  for (const [index, sent] of asked.entries()) {
    const row = next.find((row) => nameOf(row) === nameOf(sent))
    if (row === undefined) {
      faults.push({
        pointer: `/${list}/${index}/${key}`,
        detail: `no such entry: ${String(nameOf(sent))}; POST adds one`,
      })
      continue
    }
    for (const [field, value] of Object.entries(sent)) {
      if (!differs(row, field, value)) continue
      if (editable.some((name) => name === field)) Object.assign(row, { [field]: value })
      else
        faults.push({ pointer: `/${list}/${index}/${field}`, detail: `${field} cannot be edited` })
    }
  }
  return next
}

/** PUT: only `dsp_seats[].is_active`, `datacenters[].is_active` and `datacenters[].client_qps` may differ. */
export function planUpdate(rows: SupplierRows, body: UpdateBody, names: Names): ChangeResult {
  const faults = nameFaults(body, names)
  const seats = merged('dsp_seats', rows.seats, body.dsp_seats, faults)
  const datacenters = merged('datacenters', rows.datacenters, body.datacenters, faults)
  if (faults.length > 0) return refused('not_editable', faults)
  const broken = allotmentFaults(seats, datacenters, body.datacenters)
  if (broken.length > 0) return refused('allotment', broken)
  const changed =
    !isDeepStrictEqual(seats, rows.seats) || !isDeepStrictEqual(datacenters, rows.datacenters)
  return { ok: true, after: { seats, datacenters }, changed }
}
