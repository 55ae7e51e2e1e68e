-- Has the event of a job delivered again, from its first attempt on.
--
-- KEYS partition never
-- ARGV job_id
-- Reply 1 | 0: whether there is one
--
-- One that is on its way is not sent a second time meanwhile: it begins anew when that attempt is over.

local id = ARGV[1]
local job = read_job(id)
if not job or is_gone(job) or job.event == '' or not job.ended then return 0 end
if redis.call('ZSCORE', key('flights', job.workspace), id) then
  redis.call('HSET', key('event', id), 'again', '1')
  return 1
end
announce(job)
redis.call('HDEL', key('event', id), 'reason', 'ended', 'again')
redis.call('ZREM', key('given_up'), id)
return 1
