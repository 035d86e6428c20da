import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { manifests, needsHelm, root, template } from './helm.ts'
import { layOut } from './release.ts'

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

t.test('the pod of `helm test` finds a release that serves', needsHelm, async (t) => {
  const all = manifests(template().text)
  const dir = t.testdir({})
  const [proxy, admin, notices] = [await freePort(), await freePort(), await freePort()]
  const supplier = await createDemoSupplier()
  t.teardown(() => supplier.close())
  const config = layOut(dir, all, (text) =>
    text
      .replace('0.0.0.0:8080', `127.0.0.1:${proxy}`)
      .replace('0.0.0.0:8081', `127.0.0.1:${admin}`)
      .replace('0.0.0.0:8082', `127.0.0.1:${notices}`)
      .replace('http://127.0.0.1:9090/openrtb', supplier.url)
      .replace('stateDir: /data', `stateDir: ${dir}`)
      .replace('sqlite:/data/', `sqlite:${dir}/`)
      .replace('grace: 15s', 'grace: 0s'),
  )
  const service = spawn(process.execPath, [`${root}/main.ts`, 'start', '--config', config], {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => service.kill('SIGKILL'))
  let said = ''
  for (const stream of [service.stdout, service.stderr])
    stream.on('data', (chunk) => {
      said += chunk
    })
  const ready = async () => {
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => null)
      if (answer?.ok) return true
      if (service.exitCode !== null) return false
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  if (!(await ready())) throw new Error(said)

  const pod = all.find(({ kind }) => kind === 'Pod')!.spec as {
    containers: { command: string[] }[]
  }
  const script = pod.containers[0]!.command.at(-1)!
    .replace('http://test-bidweir-admin:8081', `http://127.0.0.1:${admin}`)
    .replace('http://test-bidweir-notices:8082', `http://127.0.0.1:${notices}`)
    .replace('http://test-bidweir-proxy:8080', `http://127.0.0.1:${proxy}`)
    .replaceAll('/etc/bidweir', dir)
  const test = async () => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script])
    let text = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        text += chunk
      })
    const [code] = await once(child, 'close')
    return { code, text }
  }
  const good = await test()
  t.equal(good.code, 0, good.text)
  const steps = [
    'ready',
    'notices alone',
    'management is closed',
    'token',
    'suppliers',
    'bid',
    'win',
  ]
  for (const step of steps) t.match(good.text, new RegExp(`^ok ${step}$`, 'm'))

  writeFileSync(config, readFileSync(config, 'utf8').replace('timeout: 250ms', 'timeout: fast'))
  while (!said.includes('reload refused')) await once(service.stderr, 'data')
  const refused = await test()
  t.not(refused.code, 0)
  t.match(refused.text, /not true: the configuration is the one of the release/)
  const ended = once(service, 'exit')
  service.kill('SIGTERM')
  t.same((await ended)[0], 0, said)
})
