import t from 'tap'
import { readEnvironment } from '../../../src/gateway/node/config.ts'

t.test('defaults, and empty variables count as not set', async (t) => {
  t.match(readEnvironment({ PORT: '', UNKNOWN: 'x' }), {
    PORT: 8080,
    HOST: '0.0.0.0',
    LARKWAY_DATA: './data',
    LARKWAY_MEMORY_MIB: 256,
    LOG_LEVEL: 'info',
  })
  t.equal(readEnvironment({ PORT: '0' }).PORT, 0)
})

t.test('every bad variable is named at once, and none of their values', async (t) => {
  const bad = {
    PORT: 'secret-a',
    LARKWAY_MEMORY_MIB: '1.5',
    REDIS_URL: 'secret-b',
    HTTPS_PROXY: 'secret-g',
    S3_ENDPOINT: 'secret-c',
    S3_PUBLIC_ENDPOINT: 'secret-d',
    S3_BUCKET: 'x',
    S3_ACCESS_KEY_ID: 'secret-f',
    LOG_LEVEL: 'secret-e',
  }
  try {
    readEnvironment(bad)
    t.fail('nothing was refused')
  } catch (error) {
    const { message } = error as Error
    for (const name of Object.keys(bad).filter((name) => name !== 'S3_ACCESS_KEY_ID')) t.match(message, name)
    t.match(message, 'also needs S3_SECRET_ACCESS_KEY', 'what else an S3 store needs')
    t.notMatch(message, 'secret-')
  }
})

t.test('a bucket whose credentials the SDK finds', async (t) => {
  const s3 = { S3_ENDPOINT: 'https://s3.eu-central-1.amazonaws.com', S3_BUCKET: 'bucket' }
  t.match(readEnvironment(s3), { S3_ACCESS_KEY_ID: undefined, S3_SECRET_ACCESS_KEY: undefined })
  t.throws(() => readEnvironment({ S3_BUCKET: 'bucket' }), /also needs S3_ENDPOINT$/)
})

t.test('a port has a range', async (t) => {
  t.throws(() => readEnvironment({ PORT: '65536' }), /PORT/)
  t.throws(() => readEnvironment({ PORT: '-1' }), /PORT/)
})

t.test('a switch is true or false, and nothing like it', async (t) => {
  const switched = (text: string) =>
    readEnvironment({ LARKWAY_INSECURE_WEBHOOKS: text }).LARKWAY_INSECURE_WEBHOOKS
  t.same(['true', 'false', ''].map(switched), [true, false, false])
  for (const text of ['1', 'TRUE', 'yes', ' true'])
    t.throws(() => switched(text), /LARKWAY_INSECURE_WEBHOOKS/)
})

t.test('how many jobs run at a time goes by the memory, unless it is said', async (t) => {
  const jobs = (env: Record<string, string>) => readEnvironment(env).LARKWAY_JOBS
  t.same(
    ['8', '64', '128', '256', '4096'].map((LARKWAY_MEMORY_MIB) => jobs({ LARKWAY_MEMORY_MIB })),
    [16, 16, 32, 64, 64],
  )
  t.equal(jobs({}), 64)
  t.equal(jobs({ LARKWAY_JOBS: '3', LARKWAY_MEMORY_MIB: '4096' }), 3)
  t.equal(jobs({ LARKWAY_JOBS: '0' }), 0)
  t.throws(() => jobs({ LARKWAY_JOBS: '1025' }), /LARKWAY_JOBS/)
})

t.test('TLS takes a certificate, a key and a port of its own', async (t) => {
  const pair = { LARKWAY_TLS_CERT: 'tls.crt', LARKWAY_TLS_KEY: 'tls.key' }
  t.match(readEnvironment(pair), { ...pair, LARKWAY_TLS_PORT: 8443 })
  t.throws(() => readEnvironment({ LARKWAY_TLS_CERT: 'tls.crt' }), /TLS also needs LARKWAY_TLS_KEY/)
  t.throws(() => readEnvironment({ LARKWAY_TLS_KEY: 'tls.key' }), /TLS also needs LARKWAY_TLS_CERT/)
  t.throws(() => readEnvironment({ ...pair, PORT: '8443' }), /LARKWAY_TLS_PORT must be another one than PORT/)
  t.equal(readEnvironment({ ...pair, PORT: '0', LARKWAY_TLS_PORT: '0' }).LARKWAY_TLS_PORT, 0)
  t.equal(readEnvironment({ PORT: '8443' }).PORT, 8443, 'without TLS any port will do')
})

t.test('a proxy may be named in lower case, as other programs take it', async (t) => {
  const url = 'http://name:pass@proxy:3128'
  t.match(readEnvironment({ https_proxy: url, no_proxy: '*' }), { HTTPS_PROXY: url, NO_PROXY: '*' })
  t.match(readEnvironment({ HTTPS_PROXY: url, https_proxy: 'http://other' }), { HTTPS_PROXY: url })
  for (const bad of ['socks5://proxy:1080', 'proxy:3128', 'http://proxy/path'])
    t.throws(() => readEnvironment({ HTTPS_PROXY: bad }), /environment: HTTPS_PROXY/, bad)
})

t.test('secrets may be in files, and are in one place only', async (t) => {
  const folder = t.testdir({ redis: 'redis://:pass@host:6379\n', key: ' s3-secret ' })
  const s3 = { S3_ENDPOINT: 'http://s3', S3_BUCKET: 'bucket', S3_ACCESS_KEY_ID: 'id' }
  t.match(
    readEnvironment({ ...s3, REDIS_URL_FILE: `${folder}/redis`, S3_SECRET_ACCESS_KEY_FILE: `${folder}/key` }),
    { REDIS_URL: 'redis://:pass@host:6379', S3_SECRET_ACCESS_KEY: 's3-secret', S3_ACCESS_KEY_ID: 'id' },
  )
  const refused = (env: Readonly<Record<string, string>>) => {
    try {
      return String(readEnvironment(env))
    } catch (error) {
      return (error as Error).message
    }
  }
  t.match(
    refused({ REDIS_URL_FILE: `${folder}/redis`, REDIS_URL: 'redis://host' }),
    /REDIS_URL_FILE are both set/,
  )
  const missing = refused({ LARKWAY_SECRET_KEYS_FILE: '/nowhere/canary', PORT: 'x' })
  t.match(missing, /LARKWAY_SECRET_KEYS_FILE names a file that cannot be read \(ENOENT\)/)
  t.match(missing, /PORT/, 'with every other fault')
  const bad = refused({ REDIS_URL_FILE: `${folder}/key` })
  t.match(bad, /REDIS_URL/)
  t.notMatch(bad, /s3-secret/)
})
