/** The password of the first user is told once, so it must have been told; what it opens is nobody else's to read. */
import { readdirSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { newFolder, startBidweir, token } from '../support/process.ts'
import { httpSupplier } from '../support/supplier.ts'
import { yamlOf } from '../support/wins.ts'

t.test('a start that fails at a taken port leaves the first password to the next', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const holder = createServer()
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve))
  const { port } = holder.address() as { port: number }
  t.teardown(async () => {
    holder.close()
    await supplier.close()
  })
  const folder = newFolder()
  const yaml = yamlOf({ endpoint: supplier.url, suppliers: ['id: acme'] })
  for (const listener of ['proxy', 'admin']) {
    const taken = yaml.replace(
      `${listener}: {listen: "127.0.0.1:0"`,
      `${listener}: {listen: "127.0.0.1:${port}"`,
    )
    await t.rejects(startBidweir(taken, folder), /EADDRINUSE/)
  }
  const bidweir = await startBidweir(yaml, folder)
  t.teardown(() => bidweir.stop())
  t.type(bidweir.password, 'string')
  t.type(await token(bidweir), 'string', 'and it opens')
  const data = join(folder, 'data')
  const files = readdirSync(data).filter((name) => statSync(join(data, name)).isFile())
  const databases = ['', '-shm', '-wal', '.lock', '.lock.json'].map((end) => `bidweir.db${end}`)
  t.same(files.sort(), [...databases, 'keys.json', 'lock', 'lock.json'])
  for (const name of files)
    t.equal(statSync(join(data, name)).mode & 0o077, 0, `${name} is its owner's alone`)
})

t.test('a password that is given works, and is not in the output', async (t) => {
  const given = 'given-by-a-secret'
  const bidweir = await startBidweir(
    `proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", auth: {embedded: {adminPassword: ${given}}}}
drain: {grace: 0ms}
`,
  )
  t.teardown(() => bidweir.stop())
  t.type(await token(bidweir, 'admin', given), 'string')
  t.match(bidweir.stdout(), /^user +admin$/m)
  t.notMatch(bidweir.stdout() + bidweir.stderr(), given)
})
