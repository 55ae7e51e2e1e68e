import t from 'tap'
import { createS3Objects } from '../../../src/gateway/storage/s3.ts'
import { fetchFrom, headOf } from '../../support/audio-fetch.ts'
import { sha256 } from '../../support/digests.ts'
import { hearingRig, SOUND } from '../../support/job-rig.ts'
import { startServerLink } from '../../support/server-link.ts'
import { sharedS3 } from '../../support/shared-s3.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.test('jobs whose objects are in a bucket', async (t) => {
  const server = await sharedS3(t)
  const link = await startServerLink(t, Number(new URL(server.endpoint).port))
  const endpoint = `http://${link.host}`
  const store = createS3Objects({ ...server, endpoint, timing: { answerMs: 2_000, callMs: 5_000 } })
  t.teardown(() => store.close())
  const { fetchAudio } = await fetchFrom(t, (socket) => {
    socket.write(headOf(SOUND.length))
    socket.end(SOUND)
  })
  const { rig, upstream } = await hearingRig(t, { store, fetchAudio, domains: ['good.example'] })

  await t.test('audio is read from it, and large results are kept in it', async (t) => {
    const runner = rig.run()
    upstream.behave('ear', { deltas: ['long '.repeat(20_000)] })
    const given = await rig.ended(await rig.hear(SOUND))
    const fetched = await rig.ended(await rig.hear({ url: 'https://good.example/a.mp3' }))
    for (const { status, result } of [given, fetched]) {
      t.equal(status, 'succeeded')
      t.match(result === null ? '' : await rig.objects.open(result), /long long/)
    }
    t.same(
      upstream.received.map((one) => one.sha256),
      [sha256(SOUND), sha256(SOUND)],
    )
    t.ok(await waitUntil(async () => (await rig.keys()).every((key) => key.startsWith('result/'))))
    await runner.stop(10_000)
  })

  await t.test('a job whose audio is gone for good fails when it was tried again', async (t) => {
    const id = await rig.hear(SOUND)
    await rig.store.remove(`job/acme/${id}/given`)
    const runner = rig.run()
    t.match(await rig.ended(id), { status: 'failed', retries: 2, error: { code: 'INTERNAL' } })
    await runner.stop(10_000)
  })

  await t.test('and one whose bucket is away is returned until it is back', async (t) => {
    const id = await rig.hear(SOUND)
    link.freeze()
    rig.run()
    await rig.reached(id, ({ returns }) => returns > 0)
    link.thaw()
    t.match(await rig.ended(id), { status: 'succeeded', retries: 0, stalled: 0 })
  })
})
