/** A cgroup for the pods of one cluster, so that two clusters on a machine do not end each other's. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../support/until.ts'

const root = '/sys/fs/cgroup'
/** Of each controller in version 1, one in version 2. */
const hierarchies = () =>
  existsSync(join(root, 'cgroup.controllers'))
    ? [root]
    : readdirSync(root).map((name) => join(root, name))

export function makeCgroup(name: string): string {
  for (const hierarchy of hierarchies()) {
    const folder = join(hierarchy, name)
    mkdirSync(folder)
    for (const file of ['cpuset.cpus', 'cpuset.mems'])
      if (existsSync(join(folder, file)) && hierarchy !== root)
        writeFileSync(join(folder, file), readFileSync(join(hierarchy, file)))
  }
  return name
}

const remove = (folder: string) => {
  if (!existsSync(folder)) return
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  ))
    remove(join(folder, name))
  rmdirSync(folder)
}

/** Processes leave a cgroup a moment after they ended. */
export const removeCgroup = (name: string) =>
  until(() => {
    try {
      for (const hierarchy of hierarchies()) remove(join(hierarchy, name))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false
      throw error
    }
  })
