import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { BIFROST, FERROGW, type Gateway, installed, LITELLM, ROLTER } from '../../bench/peers/gateways.ts'
import { tempFolder } from '../support/scratch.ts'

const made: Gateway = {
  ...LITELLM,
  name: 'made',
  tools: ['sh'],
  async install(folder) {
    writeFileSync(join(folder, 'program'), '')
  },
  start: ({ folder, port, configuration }) => ({ command: folder, args: [`${port}`, configuration] }),
}

t.test('a gateway that cannot be installed is skipped by its name, with the reason', async (t) => {
  const parent = await tempFolder(t)
  const refuses = async () => {
    throw new Error('pip install failed (1)\n  no made at https://mirror.example/made')
  }
  t.same(await installed({ ...made, install: refuses }, parent), {
    name: 'made',
    reason: 'it could not be installed: no made at the registry',
  })
  t.same(await installed({ ...made, tools: ['no-such-tool'] }, parent), {
    name: 'made',
    reason: 'it could not be installed: no-such-tool is not on this machine',
  })
  t.notOk(existsSync(join(parent, 'made')), 'nothing is left that would pass for it')
})

t.test(
  'a gateway is installed once, and started with a configuration that leads to the upstream',
  async (t) => {
    const parent = await tempFolder(t)
    const found = await installed(made, parent)
    if (!('candidate' in found)) return t.fail(found.reason)
    await installed({ ...made, install: () => t.fail('again') as never }, parent)
    t.same(found.candidate.versions, { made: LITELLM.version })
    const place = { port: 1, upstreamPort: 4321, folder: parent, reach: async (to: string) => to }
    const { args } = await found.candidate.command(place)
    const [, path = ''] = args
    t.match(JSON.parse(readFileSync(path, 'utf8')), made.configuration(4321, 1).content)
    const started = { folder: parent, port: 1, upstreamPort: 4321, configuration: path }
    for (const gateway of [LITELLM, BIFROST, ROLTER, FERROGW]) {
      const told = [gateway.configuration(4321, 1).content, gateway.start(started)]
      t.match(JSON.stringify(told), 'http://127.0.0.1:4321', gateway.name)
    }
  },
)
