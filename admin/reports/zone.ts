/** Days and times in a time zone. Reports sum whole hours of UTC, so an hour belongs to the day that it begins in. */
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { hour } from '../store/hour.ts'

const formats = new Map<string, Intl.DateTimeFormat>()

/** Milliseconds that the zone is ahead of UTC. Throws a RangeError for a zone that does not exist. */
export function offsetAt(time: number, zone: string): number {
  const format = getOrAdd(
    formats,
    zone,
    () => new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' }),
  )
  const name = format.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)/.exec(name) ?? ['', '+', '0', '0']
  return (sign === '-' ? -1 : 1) * (Number(hours) * hour + Number(minutes) * 60_000)
}

/**
 * Whether there is a time zone of this name.
 *
 * @param name of the IANA database, such as `Europe/Berlin`
 */
export function isZone(name: string): boolean {
  try {
    offsetAt(0, name)
    return true
  } catch {
    return false
  }
}

/** The instant of a time that was written without a zone; `wall` is the same time in UTC. */
export function instantOf(wall: number, zone: string): number {
  // the offset at the instant itself, which differs on days when clocks change
  return wall - offsetAt(wall - offsetAt(wall, zone), zone)
}

const two = (value: number) => String(Math.trunc(value)).padStart(2, '0')

/** ISO 8601, with Z for UTC and an offset for other zones. */
export function textOf(time: number, zone: string): string {
  if (zone === 'UTC') return new Date(time).toISOString()
  const offset = offsetAt(time, zone)
  const wall = new Date(time + offset).toISOString().slice(0, 19)
  const minutes = Math.abs(offset) / 60_000
  return `${wall}${offset < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)}`
}

/** The first instant of the day that `at` is in. */
export function dayOf(time: number, zone: string): number {
  const wall = new Date(time + offsetAt(time, zone))
  return instantOf(wall.setUTCHours(0, 0, 0, 0), zone)
}
