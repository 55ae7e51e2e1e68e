import { setTimeout as sleep } from 'node:timers/promises'
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { Redis } from 'ioredis'
import { test } from 'tap'
import { startRedis } from '../support/redis-server.ts'
import { startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'

// Tests of failures rest on these servers dying, freezing and coming back as they are told.

test('a durable Redis keeps what it acknowledged when it is killed', { skip: withoutServers }, async (t) => {
  const server = await startRedis(t, { durable: true })
  const redis = new Redis(server.url, { commandTimeout: 2000, retryStrategy: () => 50 })
  redis.on('error', () => {})
  t.teardown(() => redis.disconnect())
  await redis.set('key', 'value')

  const pid = server.pid
  await server.kill()
  t.throws(() => process.kill(pid, 0), 'killed means gone')
  await server.restart()
  t.not(server.pid, pid)
  t.equal(await redis.get('key'), 'value')

  server.freeze()
  await t.rejects(redis.get('key'), 'frozen: nothing answers')
  server.thaw()
  t.equal(await redis.get('key'), 'value')
})

test('S3 comes back from a crash of its gateway with its objects', { skip: withoutServers }, async (t) => {
  const server = await startS3(t)
  const s3 = new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    forcePathStyle: true,
    credentials: server,
    maxAttempts: 1,
  })
  t.teardown(() => s3.destroy())
  const object = { Bucket: server.bucket, Key: 'a/b' }
  await s3.send(new PutObjectCommand({ ...object, Body: 'hello' }))
  const read = async () => (await s3.send(new GetObjectCommand(object))).Body?.transformToString()

  await server.kill()
  await t.rejects(read(), 'killed: refused')
  await server.restart()
  t.equal(await read(), 'hello')

  server.freeze()
  const late = read()
  const first = await Promise.race([late, sleep(500, 'nothing')])
  t.equal(first, 'nothing', 'frozen: nothing answers')
  server.thaw()
  t.equal(await late, 'hello')

  const other = await server.makeBucket()
  t.not(other, server.bucket)
  await t.rejects(s3.send(new GetObjectCommand({ ...object, Bucket: other })), { name: 'NoSuchKey' })
  const stranger = new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    forcePathStyle: true,
    credentials: { accessKeyId: server.accessKeyId, secretAccessKey: 'wrong' },
  })
  t.teardown(() => stranger.destroy())
  await t.rejects(stranger.send(new GetObjectCommand(object)), { name: 'SignatureDoesNotMatch' })
})
