/** Reports of a supplier for the range of the page, and their files. */
import { dateOf, startOfDay, zone } from './format.js'
import { call, request } from './session.js'

/** @typedef {{ from: string, to: string }} Range dates, `to` inclusive */

const day = 86_400_000

/** The last days, today included. @param {number} days @returns {Range} */
export const lastDays = (days) => ({
  from: dateOf(Date.now() - (days - 1) * day),
  to: dateOf(Date.now()),
})

/** Parameters of a report: whole days in the time zone of the page. @param {Range} range @param {Record<string, string>} more */
function query(range, more) {
  const from = startOfDay(range.from)
  // 36 hours later is within the next day, also when clocks change
  const to = startOfDay(dateOf(startOfDay(range.to) + 1.5 * day))
  return new URLSearchParams({ from: String(from), to: String(to), tz: zone.value, ...more })
}

/** @param {string} what @param {Range} range @param {Record<string, string>} more @returns {Promise<any[]>} */
export const report = (what, range, more) => call(`/api/svc/reports/${what}?${query(range, more)}`)

/** Saves a report as a CSV file. @param {string} what @param {Range} range @param {Record<string, string>} more */
export async function saveCsv(what, range, more) {
  const response = await request(
    `/api/svc/reports/${what}?${query(range, { ...more, format: 'csv' })}`,
  )
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1]
  const url = URL.createObjectURL(await response.blob())
  const link = document.createElement('a')
  link.href = url
  link.download = name ?? `${what}.csv`
  link.click()
  URL.revokeObjectURL(url)
}
