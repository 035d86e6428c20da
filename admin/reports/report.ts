/** One report, from the question to its bytes. */

import { render } from './render.ts'
import { type Readings, type ReportRow, rowsBy, type Scope } from './rows.ts'
import type { Source } from './scope.ts'

export interface ReportAsk {
  scope: Scope
  columns: readonly (keyof ReportRow)[]
  format: 'json' | 'csv'
  readings: Readings
}

/** In a buffer of its own, so that it may change threads. */
export async function report(source: Source, ask: ReportAsk): Promise<Uint8Array<ArrayBuffer>> {
  const rows = await rowsBy(source, ask.scope, ask.readings)
  return new TextEncoder().encode(render(rows, ask.columns, ask.format))
}
