/** The listener of win notices alone (`notices.listen`), so that they can be public and the rest private. */
import type { FastifyPluginAsync } from 'fastify'
import { alive } from '../admin/http/health.ts'
import { createAdmin } from '../admin/http/server.ts'
import type { Log } from '../opd/shared/log.ts'

interface NoticesListener {
  /** The port; null: there is no such listener. */
  listen(): Promise<number | null>
  drain(): void
  close(): Promise<void>
}

/** `notices`: the plugin of the admin listener itself, so that both share their limits. */
export function createNoticesListener(
  listen: string | null,
  notices: FastifyPluginAsync,
  log: Log,
): NoticesListener {
  if (listen === null) return { listen: async () => null, drain: () => {}, close: async () => {} }
  const server = createAdmin({ listen, log, plugins: [alive, notices], document: false })
  return {
    listen: async () => (await server.listen()).port,
    drain: () => server.drain(),
    close: () => server.close(),
  }
}
