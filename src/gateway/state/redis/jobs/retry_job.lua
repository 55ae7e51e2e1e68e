-- Queues a failed job of the queue again, as if it had never been tried.
--
-- KEYS partition never
-- ARGV id
-- Reply 1 | 0: whether it was one
--
-- The fence goes on: a worker of before may still be at it.

local job = read_job(ARGV[1])
if not job or job.kind ~= 'queue' or job.status ~= 'failed' or is_gone(job) then return 0 end
job.number = next_number()
change(job, 'queued', 'number', job.number, 'strays', '0', 'retries', '0', 'returns', '0')
redis.call('HDEL', key('job', job.id), 'ended', 'expires', 'error', 'facts', 'cancel', 'ending')
redis.call('ZREM', key('expiry'), job.id)
forget_abandoned(job.id)
queue(job, 0)
return 1
