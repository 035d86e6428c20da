/** Makes paths absolute: relative paths in a file are relative to the file itself (CONTRACT 2). */
import { dirname, join, resolve } from 'node:path'
import type { Config, ParsedConfig } from './schema.ts'

const sqlite = 'sqlite:'
const inMemory = 'sqlite::memory:'

/** Without `stateDir` the state is in the folder of the SQLite file, so that a backup of the folder has both. */
function chosenDir({ stateDir, store: { database } }: ParsedConfig): string {
  if (stateDir !== undefined) return stateDir
  const beside = database?.startsWith(sqlite) === true && database !== inMemory
  return beside ? dirname(database.slice(sqlite.length)) : 'data'
}

function databaseOf(database: string | undefined, stateDir: string, base: string): string {
  if (database === undefined) return sqlite + join(stateDir, 'bidweir.db')
  if (!database.startsWith(sqlite) || database === inMemory) return database
  return sqlite + resolve(base, database.slice(sqlite.length))
}

/** `base`: the folder of the file, or the working directory. */
export function resolvePaths(config: ParsedConfig, base: string): Config {
  const stateDir = resolve(base, chosenDir(config))
  const { store, opd } = config
  const { decisionLog } = opd
  const path = decisionLog === null ? '' : resolve(base, decisionLog.path)
  return {
    ...config,
    stateDir,
    store: { ...store, database: databaseOf(store.database, stateDir, base) },
    opd: { ...opd, decisionLog: decisionLog === null ? null : { ...decisionLog, path } },
  }
}
