import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { runBidweir } from '../support/process.ts'
import { until } from '../support/until.ts'
import { manifests, needsHelm, template } from './helm.ts'
import { layOut } from './release.ts'

t.test('the pod of `helm test` finds a release that serves', needsHelm, async (t) => {
  const all = manifests(template().text)
  const dir = t.testdir({})
  const supplier = await createDemoSupplier()
  t.teardown(() => supplier.close())
  const config = layOut(dir, all, (text) =>
    text
      .replace('0.0.0.0:8080', '127.0.0.1:0')
      .replace('0.0.0.0:8081', '127.0.0.1:0')
      .replace('0.0.0.0:8082', '127.0.0.1:0')
      .replace('http://127.0.0.1:9090/openrtb', supplier.url)
      .replace('stateDir: /data', `stateDir: ${dir}`)
      .replace('sqlite:/data/', `sqlite:${dir}/`)
      .replace('grace: 15s', 'grace: 0s'),
  )
  const service = await runBidweir(['start', '--config', config], dir)
  t.teardown(() => service.stop('SIGKILL'))
  await until(async () => (await fetch(`http://127.0.0.1:${service.adminPort}/readyz`)).ok)

  const noticesPort = /^win notices .*?:(\d+)\//m.exec(service.stdout())![1]
  const pod = all.find(({ kind }) => kind === 'Pod')!.spec as {
    containers: { command: string[] }[]
  }
  /** What the container runs, with the addresses of this service. */
  const localized = ({ containers }: typeof pod) =>
    containers[0]!.command
      .at(-1)!
      .replace('http://test-bidweir-admin:8081', `http://127.0.0.1:${service.adminPort}`)
      .replace('http://test-bidweir-notices:8082', `http://127.0.0.1:${noticesPort}`)
      .replace('http://test-bidweir-proxy:8080', `http://127.0.0.1:${service.proxyPort}`)
      .replaceAll('/etc/bidweir', dir)
  const serviceManifests = manifests(
    template(
      '--set',
      'suppliers.acme.endpoints[0]=https://a.example/,suppliers.bolt.opd.enabled=true',
    ).text,
  ).find(({ kind }) => kind === 'Pod')!.spec as typeof pod
  const test = async (script = localized(pod)) => {
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
    'every supplier of the values is served',
    'every opd block is valid',
    'bid',
    'win',
  ]
  for (const step of steps) t.match(good.text, new RegExp(`^ok ${step}$`, 'm'))

  const others = await test(
    localized(serviceManifests).replace('timeLimit = 120_000', 'timeLimit = 0'),
  )
  t.not(others.code, 0)
  t.match(others.text, /not served: acme,bolt/)

  const file = readFileSync(config, 'utf8')
  writeFileSync(config, file.replace('location: local', 'location: eu-west'))
  await until(() => service.stderr().includes('restart needed'))
  const waiting = await test()
  t.not(waiting.code, 0)
  t.match(waiting.text, /not true: no change waits for a restart/)

  writeFileSync(config, file.replace('timeout: 250ms', 'timeout: fast'))
  await until(() => service.stderr().includes('reload refused'))
  const refused = await test()
  t.not(refused.code, 0)
  t.match(refused.text, /not true: the configuration is the one of the release/)
  t.equal(await service.stop('SIGTERM'), 0, service.stderr())
})
