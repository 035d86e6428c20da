/** Suppliers that change while a node starts, and suppliers that could not be applied (CONTRACT 14). */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Log } from '../../../opd/base/log.ts'
import { loadConfig } from '../../../service/config/load.ts'
import { startService } from '../../../service/service.ts'
import { suppliersOf } from '../../support/api-suppliers.ts'
import { newFolder } from '../../support/process.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const program = join(import.meta.dirname, '../../../main.ts')

/** A node with the supplier `filed`; `warned` is called with the warnings of its log. */
async function world(t: Test, warned: (message: string) => void) {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const database = `store: {database: "sqlite:${folder}/b.db"}\nstateDir: ${folder}\n`
  const file = join(folder, 'bidweir.yaml')
  const ofFile = `suppliers: [{id: filed, endpoints: ["${supplier.url}"], timeout: 20s}]\n`
  writeFileSync(
    file,
    `${database}proxy: {listen: "127.0.0.1:0"}\nadmin: {listen: "127.0.0.1:0"}\n${ofFile}`,
  )
  // For the command: it refuses ids of the file that it knows.
  const other = join(folder, 'other.yaml')
  writeFileSync(other, `${database}suppliers: []\n`)
  const errors: string[] = []
  const log: Log = {
    info() {},
    warn: (_fields, message) => warned(message),
    error: (_fields, message) => void errors.push(message),
  }
  return {
    folder,
    errors,
    /** Changes the suppliers from another process, before anything else happens in this one. */
    apply(...ids: string[]) {
      const list = join(folder, 'list.yaml')
      const endpoints = [supplier.url]
      writeFileSync(list, JSON.stringify(ids.map((id) => ({ id, endpoints, timeout: '20s' }))))
      execFileSync(process.execPath, [program, 'apply', '-f', list, '--config', other])
    },
    async start() {
      const { config, ...loaded } = loadConfig(file)
      const service = await startService({
        loaded: { ...loaded, config: config! },
        load: null,
        log: { level: 'info', ...log },
        watch: null,
      })
      t.teardown(async () => {
        await service.stop(0, 5000)
        await supplier.close()
      })
      return suppliersOf({
        bidweir: service,
        api: (path) => fetch(`http://127.0.0.1:${service.adminPort}${path}`),
      })
    },
  }
}

t.test('a supplier that is added while a node starts is served when it is ready', async (t) => {
  let added = false
  const { folder, apply, start } = await world(t, (message) => {
    if (added || !message.includes('the bid log on disk is damaged')) return
    added = true
    apply('late')
  })
  writeFileSync(join(folder, 'bid-log'), 'damaged')
  const { bid } = await start()
  t.ok(added, 'after the suppliers were read')
  t.equal(await bid('late'), 200)
})

t.test('suppliers that could not be applied are applied later', async (t) => {
  let failures = 0
  const { apply, errors, start } = await world(t, (message) => {
    if (failures > 0 || !message.includes('have this supplier')) return
    failures++
    throw new Error('the log is full')
  })
  const { bid } = await start()
  apply('filed', 'late')
  await until(async () => (await bid('late')) === 200)
  t.equal(failures, 1)
  t.match(errors, ['the suppliers could not be applied, it is tried again'])
})
