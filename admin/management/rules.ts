/**
 * The rules for creating and changing seats and data centers (SERVICE 4.3-4.5, 8; CONTRACT 8). Pure functions of the
 * stored rows and the request.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ProblemFault } from '../http/problem.ts'
import type { SupplierRows } from '../store/suppliers.ts'
import type { DataCenter, QpsEntry, Seat } from '../store/tables.ts'
import type { CreateBody, UpdateBody } from './schema.ts'

export type ChangeResult =
  | { ok: true; after: { seats: Seat[]; datacenters: DataCenter[] }; changed: boolean }
  | { ok: false; status: 409 | 422; code: string; title: string; faults: ProblemFault[] }

interface Names {
  id: string
  name: string
  name_external: string
}

const refused = (
  status: 409 | 422,
  code: string,
  title: string,
  faults: ProblemFault[],
): ChangeResult => ({ ok: false, status, code, title, faults })

/**
 * `client_qps` of a location must not exceed the sum of the seats' values for it. A null value counts as 0; a null
 * `client_qps` is always allowed.
 */
function allotmentFaults(
  seats: readonly Seat[],
  centers: readonly DataCenter[],
  asked: readonly { location: string }[],
) {
  const sums = new Map<string, number>()
  for (const { qps } of seats)
    for (const { location, value } of qps)
      sums.set(location, (sums.get(location) ?? 0) + (value ?? 0))
  return centers.flatMap(({ location, client_qps }): ProblemFault[] => {
    const sum = sums.get(location) ?? 0
    if (client_qps === null || client_qps <= sum) return []
    const at = asked.findIndex((each) => each.location === location)
    return [
      {
        pointer: at < 0 ? '/datacenters' : `/datacenters/${at}/client_qps`,
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

/** POST: adds seats and new data centers. A data center that equals the stored one is ignored. */
export function planCreate(rows: SupplierRows, body: CreateBody, names: Names): ChangeResult {
  const wrongNames = nameFaults(body, names)
  if (wrongNames.length > 0)
    return refused(422, 'names_differ', 'The names are not the names of this supplier', wrongNames)
  const conflicts: ProblemFault[] = []
  for (const [at, { name }] of body.dsp_seats.entries())
    if (rows.seats.some((seat) => seat.name === name))
      conflicts.push({ pointer: `/dsp_seats/${at}/name`, detail: `a seat ${name} exists already` })
  const added: DataCenter[] = []
  for (const [at, { location, ...sent }] of body.datacenters.entries()) {
    const current = rows.datacenters.find((each) => each.location === location)
    if (current === undefined)
      added.push({
        location,
        client_qps: sent.client_qps ?? null,
        is_active: sent.is_active ?? true,
      })
    else if (Object.entries(sent).some(([field, value]) => differs(current, field, value)))
      conflicts.push({
        pointer: `/datacenters/${at}`,
        detail: `${location} exists already with other values: use PUT`,
      })
  }
  if (conflicts.length > 0) return refused(409, 'exists', 'An entry exists already', conflicts)
  const seats = [
    ...rows.seats,
    ...body.dsp_seats.map(
      (seat): Seat => ({ ...seat, name_external: seat.name_external ?? seat.name }),
    ),
  ]
  const datacenters = [...rows.datacenters, ...added]
  const faults = allotmentFaults(seats, datacenters, body.datacenters)
  if (faults.length > 0)
    return refused(422, 'allotment', "An allotment exceeds the sum of its seats' qps", faults)
  const changed = body.dsp_seats.length > 0 || added.length > 0
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
  for (const [at, sent] of asked.entries()) {
    const row = next.find((each) => nameOf(each) === nameOf(sent))
    if (row === undefined) {
      faults.push({
        pointer: `/${list}/${at}/${key}`,
        detail: `no such entry: ${String(nameOf(sent))}; POST adds one`,
      })
      continue
    }
    for (const [field, value] of Object.entries(sent)) {
      if (!differs(row, field, value)) continue
      if (editable.some((each) => each === field)) Object.assign(row, { [field]: value })
      else faults.push({ pointer: `/${list}/${at}/${field}`, detail: `${field} cannot be edited` })
    }
  }
  return next
}

/** PUT: only `dsp_seats[].is_active`, `datacenters[].is_active` and `datacenters[].client_qps` may differ. */
export function planUpdate(rows: SupplierRows, body: UpdateBody, names: Names): ChangeResult {
  const faults = nameFaults(body, names)
  const seats = merged('dsp_seats', rows.seats, body.dsp_seats, faults)
  const datacenters = merged('datacenters', rows.datacenters, body.datacenters, faults)
  if (faults.length > 0)
    return refused(422, 'not_editable', 'Only is_active and client_qps can be edited', faults)
  const broken = allotmentFaults(seats, datacenters, body.datacenters)
  if (broken.length > 0)
    return refused(422, 'allotment', "An allotment exceeds the sum of its seats' qps", broken)
  const changed =
    !isDeepStrictEqual(seats, rows.seats) || !isDeepStrictEqual(datacenters, rows.datacenters)
  return { ok: true, after: { seats, datacenters }, changed }
}
