/** An S3 store to measure with. */
export interface S3Store {
  /** `http://host:port`, path style. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** The store that the server's own variables name; null when one of them is missing. */
export function s3FromEnvironment(): S3Store | null {
  const { S3_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } = process.env
  if (!S3_ENDPOINT || !S3_BUCKET || !S3_ACCESS_KEY_ID || !S3_SECRET_ACCESS_KEY) return null
  return {
    endpoint: S3_ENDPOINT,
    region: S3_REGION || 'us-east-1',
    bucket: S3_BUCKET,
    accessKeyId: S3_ACCESS_KEY_ID,
    secretAccessKey: S3_SECRET_ACCESS_KEY,
  }
}

/** Starts the S3 server of the tests, Ceph's gateway. */
export async function startS3Server(): Promise<{ store: S3Store; stop: () => Promise<void> }> {
  const { startS3 } = await import('../test/support/s3-server.ts')
  const teardowns: (() => unknown)[] = []
  const stop = async () => {
    for (const teardown of teardowns.reverse()) await teardown()
  }
  try {
    return { store: await startS3({ teardown: (run) => void teardowns.push(run) }), stop }
  } catch (error) {
    await stop()
    throw error
  }
}
