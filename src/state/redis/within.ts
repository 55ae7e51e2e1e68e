/**
 * The answer, when it comes in time.
 *
 * @throws Error after `limitMs`; what `answer` rejects with
 */
export function within<T>(limitMs: number, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no answer within ${limitMs} ms`))
    // After a long task of this process the timer fires before the socket is read: an answer that lies there counts.
    const timer = setTimeout(() => setImmediate(late), limitMs)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
