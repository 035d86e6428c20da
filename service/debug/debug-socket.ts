/**
 * The debug calls for commands on this machine, on a socket in the state folder that only this user may open: they also work
 * while nobody can log in, and while the database is away.
 */
import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type DebugCalls, debugPlugin } from '../../admin/debug/route.ts'
import type { Authenticate } from '../../admin/http/call.ts'
import { createAdmin } from '../../admin/http/server.ts'
import type { Log } from '../../opd/base/log.ts'

/** Bytes of the path of a socket, on all systems. */
const longestPath = 103
const ownerOnly = 0o700

export const debugFolder = (stateDir: string) => join(resolve(stateDir), 'debug')
/**
 * The path of the socket of `bidweir debug`.
 *
 * @param stateDir the state folder. The path of a socket has at most 107 bytes on Linux
 */
export const debugSocket = (stateDir: string) => join(debugFolder(stateDir), 'socket')

const localCaller = {
  subject: 'bidweir debug',
  account: '*',
  roles: new Set(['operator']),
}

/** The socket of `bidweir debug`, which only the user of the process can open. */
export class DebugSocket {
  private readonly path: string
  private readonly folder: string
  private readonly log: Log
  private readonly admin: ReturnType<typeof createAdmin>

  constructor(stateDir: string, calls: DebugCalls, log: Log) {
    this.folder = debugFolder(stateDir)
    this.path = debugSocket(stateDir)
    this.log = log
    const local: Authenticate = () => async (request) => {
      request.caller = localCaller
    }
    const plugins = [debugPlugin(calls, local)]
    this.admin = createAdmin({ listen: '', log, plugins, document: false })
  }

  /** The service goes on without the socket if the state folder cannot have one. */
  async listen(): Promise<void> {
    const { path, folder } = this
    try {
      if (Buffer.byteLength(path) > longestPath)
        throw new Error(`its path has more than ${longestPath} bytes`)
      mkdirSync(folder, { recursive: true, mode: ownerOnly })
      chmodSync(folder, ownerOnly)
      // Those of a process that was killed.
      for (const name of readdirSync(folder)) rmSync(join(folder, name))
      await this.admin.app.listen({ path })
    } catch (error) {
      this.log.warn({ path, err: (error as Error).message }, '`bidweir debug` has no socket')
    }
  }

  close(): Promise<void> {
    return this.admin.close()
  }
}
