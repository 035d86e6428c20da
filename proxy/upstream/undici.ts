/** The parts of undici that carry bid traffic. Its entry point loads all of it, for a tenth of the CPU of a start. */
import { createRequire } from 'node:module'
import type undici from 'undici'

const load = createRequire(import.meta.url)

export const Client: typeof undici.Client = load('undici/lib/dispatcher/client.js')
export const buildConnector: typeof undici.buildConnector = load('undici/lib/core/connect.js')
