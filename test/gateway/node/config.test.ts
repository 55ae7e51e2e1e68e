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

t.test('every bad variable is named at once with what it takes, and none of their values', async (t) => {
  const bad = [
    ['PORT', '65536', 'must be <= 65535'],
    ['LARKWAY_TLS_PORT', '-1', 'must be integer'],
    ['LARKWAY_MEMORY_MIB', '1.5', 'must be integer'],
    ['LARKWAY_CHUNKED', 'secret-a', 'must be one of strict, seen, refuse'],
    [
      'LARKWAY_PUBLIC_URL',
      'https://secret-b /',
      'must be an origin such as https://voice.example.com, without a',
    ],
    ['LARKWAY_SECRET_KEYS', 'secret-c', 'must hold 32 bytes in base64 for each key'],
    ['REDIS_URL', 'secret-d', 'must be a URL such as redis://:password@host:6379'],
    ['HTTPS_PROXY', 'http://%zz@secret-e', 'must be a URL such as http://name:password@proxy:3128, without'],
    ['S3_ENDPOINT', 'https://', 'must be a URL'],
    ['S3_PUBLIC_ENDPOINT', 'secret-f', 'must be a URL'],
    ['S3_BUCKET', 'x', 'must not have fewer than 3 characters'],
    ['LOG_LEVEL', 'secret-g', 'must be one of trace, debug, info, warn, error, fatal, silent'],
  ] as const
  const all = { ...Object.fromEntries(bad), S3_ACCESS_KEY_ID: 'secret-h' }
  const { message } = t.throws(() => readEnvironment(all)) as Error
  for (const [name, , takes] of bad) t.match(message, `${name} ${takes}`)
  t.match(message, 'also needs S3_SECRET_ACCESS_KEY', 'what else an S3 store needs')
  t.notMatch(message, 'secret-')
})

t.test('a bucket whose credentials the SDK finds', async (t) => {
  const s3 = { S3_ENDPOINT: 'https://s3.eu-central-1.amazonaws.com', S3_BUCKET: 'bucket' }
  t.match(readEnvironment(s3), { S3_ACCESS_KEY_ID: undefined, S3_SECRET_ACCESS_KEY: undefined })
  t.throws(() => readEnvironment({ S3_BUCKET: 'bucket' }), /also needs S3_ENDPOINT$/)
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
  const refused = (env: Readonly<Record<string, string>>, said: RegExp) =>
    t.throws(() => readEnvironment(env), { message: said })
  refused({ REDIS_URL_FILE: `${folder}/redis`, REDIS_URL: 'redis://host' }, /REDIS_URL_FILE are both set/)
  refused(
    { LARKWAY_SECRET_KEYS_FILE: '/nowhere/canary', PORT: 'x' },
    /LARKWAY_SECRET_KEYS_FILE names a file that cannot be read \(ENOENT\); PORT/,
  )
  refused({ REDIS_URL_FILE: `${folder}/key` }, /^environment: REDIS_URL (?!.*s3-secret)/)
})
