-- Marks jobs of a partition whose time is over: from now on nobody sees them.
--
-- KEYS partition never
-- ARGV limit again_ms
-- Reply {more, job, …}: each job as fields and values; `more` = 1 when asking again may find others
--
-- One that is not forgotten is handed out again after `again_ms`: whoever had it may have died.

local limit = tonumber(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', key('expiry'), '-inf', digits(now_ms), 'LIMIT', 0, limit)
local jobs = { #ids == limit and 1 or 0 }
for _, id in ipairs(ids) do
  local name = key('job', id)
  if read_job(id) then
    redis.call('HSET', name, 'marked', '1')
    redis.call('ZADD', key('expiry'), digits(now_ms + ARGV[2]), id)
    table.insert(jobs, redis.call('HGETALL', name))
  else
    redis.call('DEL', name)
    redis.call('ZREM', key('index'), id)
    redis.call('ZREM', key('expiry'), id)
  end
end
return jobs
