import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { withoutServers } from '../../support/servers.ts'
import { sharedS3 } from '../../support/shared-s3.ts'
import { testAborts } from './aborts.ts'
import { testObjects } from './objects.contract.ts'
import { MIB, noise, openS3 } from './rig.ts'

const unavailable = { code: 'DEPENDENCY_UNAVAILABLE' }

const SENDERS = process.env.LARKWAY_TEST_LONG === '1' ? 500 : 100

t.test('against a real S3 server', { skip: withoutServers, timeout: 240_000 }, async (t: Test) => {
  const server = await sharedS3(t)

  await t.test('the contract of object stores', { timeout: 120_000 }, async (t: Test) => {
    const objects = openS3(t, server)
    await testObjects(t, objects)
  })

  await t.test(
    `${SENDERS} senders that leave at random points leave nothing behind`,
    { timeout: 120_000 },
    async (t: Test) => {
      const objects = openS3(t, { ...server, bucket: await server.makeBucket() })
      await testAborts(t, objects, SENDERS)
    },
  )

  await t.test(
    'wrong credentials are a failure of the store, before all of the body is sent',
    async (t: Test) => {
      const objects = openS3(t, { ...server, secretAccessKey: 'not-the-secret' })
      const slow = async function* () {
        for (let i = 0; i < 100; i += 1) {
          yield noise(MIB)
          await sleep(50)
        }
      }
      const signal = AbortSignal.timeout(20_000)
      await t.rejects(objects.put('spool/acme/denied/1', slow(), 100 * MIB, { signal }), unavailable)
      t.notOk(signal.aborted, 'the refusal was read, not waited out')
    },
  )
})
