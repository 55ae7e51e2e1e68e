import type { Test } from 'tap'
import type { Gateway } from './gateway.ts'
import { waitUntil } from './wait-until.ts'

/** Ends a gateway by SIGTERM and asserts that it leaves in order: nothing held or under way, nothing broke. */
export async function assertStopsClean(t: Test, gateway: Gateway): Promise<void> {
  t.equal(await gateway.signal('SIGTERM'), 0, 'ends with status 0')
  // The last lines of the pipe may be read after the process has ended.
  await waitUntil(() => gateway.log.at(-1)?.msg === 'stopped')
  const nothing = { held_bytes: 0, bodies: { arriving: 0, uploading: 0 } }
  t.match(gateway.log.at(-1), { msg: 'stopped', ...nothing }, 'nothing is held')
  const broken = gateway.log.filter(
    ({ level, error }) => level === 'error' || level === 'fatal' || error === 'INTERNAL',
  )
  t.same(broken.slice(0, 3), [], 'nothing broke')
}
