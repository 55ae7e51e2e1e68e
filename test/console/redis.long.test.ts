import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { withoutServers } from '../support/servers.ts'

// The tests of the console's API once more, with Redis instead of the embedded state.

const folder = new URL('./', import.meta.url)
const files = readdirSync(folder).filter(
  (name) =>
    /^[\w-]+\.test\.ts$/.test(name) &&
    readFileSync(new URL(name, folder), 'utf8').includes('startConsoleBench(t'),
)

t.setTimeout(280_000)

if (withoutServers) t.test('the console with Redis', { skip: withoutServers }, async () => {})
else {
  process.env.LARKWAY_TEST_STORE = 'redis'
  t.ok(files.length >= 12, files.join(' '))
  for (const name of files) await import(new URL(name, folder).href)
}
