/** Numbers, amounts and times in the language of the browser. An absent value is a dash, never 0. */
import { computed, signal } from '@preact/signals'

const locale = navigator.language
export const absent = '–'

const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/
/** A name within a sentence: one from right to left does not turn what is beside it. @param {string} name */
export const isolated = (name) => (rightToLeft.test(name) ? `\u2068${name}\u2069` : name)

/** A text with a capital at its beginning and a full stop. @param {string} text */
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`

export const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone

/** Whether the browser knows a time zone of this name. @param {string} name */
export function isZone(name) {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }) !== null
  } catch {
    return false
  }
}

const stored = localStorage.getItem('bidweir-zone')
/** The time zone of all times and days on the page. */
export const zone = signal(stored !== null && isZone(stored) ? stored : localZone)
/** Those that are chosen most are first. */
export const zones = [
  ...new Set([zone.value, localZone, 'UTC', ...Intl.supportedValuesOf('timeZone')]),
]

/** @param {string} name */
export function setZone(name) {
  zone.value = name
  localStorage.setItem('bidweir-zone', name)
}

/** @param {Intl.NumberFormatOptions} options */
const numbers = (options) => {
  const format = new Intl.NumberFormat(locale, options)
  return (/** @type {number | null | undefined} */ value) =>
    value === null || value === undefined || !Number.isFinite(value) ? absent : format.format(value)
}

export const integer = numbers({ maximumFractionDigits: 0 })
export const rate = numbers({ maximumSignificantDigits: 3 })
export const percent = numbers({ style: 'percent', maximumFractionDigits: 1 })
export const plain = numbers({ maximumFractionDigits: 4 })
const milliseconds = numbers({ style: 'unit', unit: 'millisecond', maximumSignificantDigits: 3 })

/** @param {number | null | undefined} seconds */
export const duration = (seconds) => milliseconds(seconds == null ? null : seconds * 1000)

const [days, hours, minutes] = ['day', 'hour', 'minute'].map((unit) =>
  numbers({ style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits: 0 }),
)

/** The two largest units of a time, in whole minutes. @param {number} ms */
export function timeSpan(ms) {
  const all = Math.max(0, Math.round(ms / 60_000))
  const parts = /** @type {const} */ ([
    [Math.floor(all / 1440), days],
    [Math.floor(all / 60) % 24, hours],
    [all % 60, minutes],
  ])
  const from = Math.max(
    0,
    parts.findIndex(([count]) => count > 0),
  )
  const shown = all === 0 ? parts.slice(2) : parts.slice(from, from + 2)
  return shown
    .filter(([count], index) => index === 0 || count > 0)
    .map(([count, format]) => format?.(count))
    .join(' ')
}

/** @type {Map<string, (value: number | null | undefined) => string>} */
const moneys = new Map()

/**
 * An amount in currency units: two decimals, or four below one unit.
 * @param {number | string | null | undefined} amount
 * @param {string} currency
 */
export function money(amount, currency) {
  if (amount === null || amount === undefined) return absent
  const value = Number(amount)
  const digits = value !== 0 && Math.abs(value) < 1 ? 4 : 2
  const key = `${currency} ${digits}`
  let format = moneys.get(key)
  if (format === undefined) {
    const options = { style: 'currency', currency, currencyDisplay: 'code' }
    format = numbers(
      /** @type {Intl.NumberFormatOptions} */ ({
        ...options,
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      }),
    )
    moneys.set(key, format)
  }
  return format(value)
}

/** The decimals of amounts that are shown below each other. @param {(number | string | null)[]} amounts */
export function digitsOf(amounts) {
  const largest = amounts.reduce(
    (/** @type {number} */ most, amount) => Math.max(most, Math.abs(Number(amount))),
    0,
  )
  return largest > 0 && largest < 1 ? 4 : 2
}

const amounts = new Map(
  [0, 2, 4].map((digits) => [
    digits,
    numbers({ minimumFractionDigits: digits, maximumFractionDigits: digits }),
  ]),
)

/** An amount without its currency, which the head of the column has. @param {number | string | null | undefined} value @param {number} digits */
export const amountOf = (value, digits) =>
  value === null || value === undefined
    ? absent
    : (amounts.get(Number(value) === 0 ? 0 : digits)?.(Number(value)) ?? absent)

/** In the time zone of the page. @param {Intl.DateTimeFormatOptions} options */
const times = (options, language = locale) => {
  // a formatter takes longer to make than a hundred times to format
  const formatter = computed(
    () => new Intl.DateTimeFormat(language, { timeZone: zone.value, ...options }),
  )
  return (/** @type {string | number} */ instant) => formatter.value.format(new Date(instant))
}

const hour = 3_600_000
const medium = times({ dateStyle: 'medium', timeStyle: 'medium' })
const offsetName = times({ timeZoneName: 'shortOffset' }, 'en')

/** With the offset of the zone in an hour that clocks show twice. @param {(instant: number) => string} format */
const unambiguous = (format) => (/** @type {string | number} */ instant) => {
  const begin = new Date(instant).getTime()
  const text = format(begin)
  const isRepeated = [-hour, hour].some((step) => format(begin + step) === text)
  return isRepeated ? `${text} ${offsetName(begin).split(' ').at(-1)}` : text
}

export const time = unambiguous(medium)
export const clock = times({ timeStyle: 'medium' })
const dayName = times({ weekday: 'short', day: 'numeric', month: 'short' })
const hourName = unambiguous(
  times({ weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
)
const tickDay = times({ day: 'numeric', month: 'short' })
const tickHour = times({ hour: 'numeric', minute: '2-digit' })
const midnight = times({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }, 'en-GB')

/** The beginning of an hour or a day. @param {number} instant @param {string} by */
export const bucketTime = (instant, by) => (by === 'day' ? dayName(instant) : hourName(instant))

/** Of an axis whose marks are `step` seconds apart: the day at midnight, else the hour. @param {number} instant @param {number} step */
export const tickTime = (instant, step) =>
  step >= 86_400 || midnight(instant) === '00:00' ? tickDay(instant) : tickHour(instant)

/** As 2026-01-31. */
export const dateOf = times({ year: 'numeric', month: '2-digit', day: '2-digit' }, 'en-CA')

/**
 * The first millisecond of a date (2026-01-31) in the time zone of the page.
 * @param {string} date
 */
export function startOfDay(date) {
  const utc = Date.parse(`${date}T00:00:00Z`)
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: zone.value,
    timeZoneName: 'longOffset',
  })
  const offsetAt = (/** @type {number} */ instant) => {
    const name =
      parts.formatToParts(instant).find(({ type }) => type === 'timeZoneName')?.value ?? ''
    const [, sign, hours, minutes] = /GMT([+-])(\d\d):(\d\d)/.exec(name) ?? ['', '+', '0', '0']
    return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
  }
  // the offset at midnight itself: it may differ from that of the same time in UTC
  return utc - offsetAt(utc - offsetAt(utc))
}
