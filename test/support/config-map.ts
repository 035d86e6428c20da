/** A folder as kubelet mounts a ConfigMap: names are links through `..data`, which a rename replaces with all files at once. */
import { mkdirSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface ConfigMap {
  folder: string
  /** Replaces all files by these. */
  replace(files: Readonly<Record<string, string>>): void
}

export function mountConfigMap(folder: string, files: Readonly<Record<string, string>>): ConfigMap {
  mkdirSync(folder, { recursive: true })
  const data = join(folder, '..data')
  let names: string[] = []
  let versions = 0
  const replace = (next: Readonly<Record<string, string>>) => {
    const version = `..2026_11_23_${++versions}`
    mkdirSync(join(folder, version))
    for (const [name, text] of Object.entries(next))
      writeFileSync(join(folder, version, name), text)
    symlinkSync(version, `${data}_tmp`)
    const before = versions === 1 ? null : readlinkSync(data)
    renameSync(`${data}_tmp`, data)
    const added = Object.keys(next).filter((name) => !names.includes(name))
    for (const name of added) symlinkSync(join('..data', name), join(folder, name))
    for (const name of names) if (!(name in next)) rmSync(join(folder, name))
    names = Object.keys(next)
    if (before !== null) rmSync(join(folder, before), { recursive: true })
  }
  replace(files)
  return { folder, replace }
}
