/// What is decided in the store, each by one script, so that no other machine's decision comes between. They take the
/// time of the store (TIME): the clocks of the machines that ask don't count.
enum StoreScript: Int, CaseIterable {
  /// `limit_req`: nginx's leaky bucket of several keys, all or none. A key holds the time at which its excess will be gone, in
  /// microseconds. For each key: the rate in thousandths of a request per second, and the burst in thousandths. Returns 0 and the
  /// excess of each key, or the number of the key that refuses (from 1) and its excess; thousandths.
  case rates
  /// `limit_conn`: counts one more of a key, unless there are as many as the limit. A key holds a count for each client of the
  /// store; those of clients that no longer tell that they live are dropped. Arguments: the client, the limit, what the
  /// keys of living clients begin with, and the milliseconds after which the key is forgotten.
  case take
  /// Ends one that `take` counted. Arguments: the client.
  case release
  /// Wrong passwords: begins an attempt for several keys unless one of them has too many. A key holds the times of its
  /// attempts, in microseconds, by their own names. Arguments: the name of this attempt, the limit, and its time in microseconds. Returns the
  /// seconds to wait, or 0.
  case attempt
  /// Keys of session tickets, newest first, each behind its time in seconds: puts the offered one in front if the newest is too
  /// old, and drops what is older than it may be kept. Arguments: the offer, both times in seconds. Returns the time now and
  /// the list.
  case tickets
  /// `keyval_zone`: changes a pair of a hash, whose field without a name counts the changes. A value stands behind the time in
  /// milliseconds at which it ends, 0 for never, and a colon. Arguments: `add`, `set`, `remove` or `clear`, the key, the value,
  /// and the milliseconds that it lives, empty for ever. Returns `done`, `exists` or `absent`.
  case keyvalChange
  /// The pairs of such a hash, unless the count of changes is still the argument. Returns 0 if there is nothing, not even a
  /// count; 1 if nothing has changed; or 2, the count, the time now, and all fields with their values.
  case keyvalRead
  /// Puts pairs into such a hash if there is nothing, not even a count. Arguments: keys, each before its milliseconds of life,
  /// empty for ever, and its value.
  case keyvalSeed

  var text: String {
    switch self {
    case .rates:
      """
      local t=redis.call('TIME') local now=t[1]*1000000+t[2]
      local rest={} local out={0}
      for i=1,#KEYS do
        local rate=tonumber(ARGV[2*i-1])
        local e=0
        local x=redis.call('GET',KEYS[i])
        if x then e=math.max(0,tonumber(x)-now+1e9/rate) end
        local excess=math.floor(e*rate/1e6+0.5)
        if excess>tonumber(ARGV[2*i]) then return {i,excess} end
        rest[i]=e out[i+1]=excess
      end
      for i=1,#KEYS do
        local life=math.ceil((rest[i]+1e9/tonumber(ARGV[2*i-1]))/1000)+1
        redis.call('SET',KEYS[i],string.format('%.0f',now+rest[i]),'PX',string.format('%.0f',life))
      end
      return out
      """
    case .take:
      """
      local all=redis.call('HGETALL',KEYS[1]) local sum=0
      for i=1,#all,2 do
        if all[i]==ARGV[1] or redis.call('EXISTS',ARGV[3]..all[i])==1 then sum=sum+all[i+1]
        else redis.call('HDEL',KEYS[1],all[i]) end
      end
      if sum>=tonumber(ARGV[2]) then return 0 end
      redis.call('HINCRBY',KEYS[1],ARGV[1],1)
      redis.call('PEXPIRE',KEYS[1],ARGV[4])
      return 1
      """
    case .release:
      """
      if redis.call('HINCRBY',KEYS[1],ARGV[1],-1)<=0 then redis.call('HDEL',KEYS[1],ARGV[1]) end
      return 0
      """
    case .attempt:
      """
      local t=redis.call('TIME') local now=t[1]*1000000+t[2]
      local limit=tonumber(ARGV[2]) local time=tonumber(ARGV[3]) local wait=0
      for i=1,#KEYS do
        redis.call('ZREMRANGEBYSCORE',KEYS[i],'-inf',string.format('%.0f',now-time))
        local n=redis.call('ZCARD',KEYS[i])
        if n>=limit then
          local first=redis.call('ZRANGE',KEYS[i],n-limit,n-limit,'WITHSCORES')
          wait=math.max(wait,1,math.ceil((tonumber(first[2])+time-now)/1e6))
        end
      end
      if wait>0 then return wait end
      for i=1,#KEYS do
        redis.call('ZADD',KEYS[i],string.format('%.0f',now),ARGV[1])
        redis.call('PEXPIRE',KEYS[i],string.format('%.0f',math.ceil(time/1000)))
      end
      return 0
      """
    case .tickets:
      """
      local now=tonumber(redis.call('TIME')[1])
      local newest=redis.call('LINDEX',KEYS[1],0)
      if not newest or now-tonumber(string.match(newest,'^%d+'))>=tonumber(ARGV[2]) then
        redis.call('LPUSH',KEYS[1],string.format('%.0f',now)..':'..ARGV[1])
      end
      while true do
        local oldest=redis.call('LINDEX',KEYS[1],-1)
        if not oldest or now-tonumber(string.match(oldest,'^%d+'))<=tonumber(ARGV[3]) then break end
        redis.call('RPOP',KEYS[1])
      end
      redis.call('EXPIRE',KEYS[1],ARGV[3])
      return {now,redis.call('LRANGE',KEYS[1],0,15)}
      """
    case .keyvalChange:
      """
      local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
      if ARGV[1]=='clear' then
        local count=tonumber(redis.call('HGET',KEYS[1],'') or 0)+1
        redis.call('DEL',KEYS[1])
        redis.call('HSET',KEYS[1],'',string.format('%.0f',count))
        return 'done'
      end
      local old=redis.call('HGET',KEYS[1],ARGV[2])
      if old then
        local ending=tonumber(string.match(old,'^%d+'))
        if ending>0 and ending<=now then old=false end
      end
      if ARGV[1]=='add' and old then return 'exists' end
      if ARGV[1]~='add' and not old then return 'absent' end
      if ARGV[1]=='remove' then redis.call('HDEL',KEYS[1],ARGV[2])
      else
        local ending=0
        if ARGV[4]~='' then ending=now+tonumber(ARGV[4]) end
        redis.call('HSET',KEYS[1],ARGV[2],string.format('%.0f',ending)..':'..ARGV[3])
      end
      redis.call('HINCRBY',KEYS[1],'',1)
      return 'done'
      """
    case .keyvalRead:
      """
      local count=redis.call('HGET',KEYS[1],'')
      if not count then return {0} end
      if count==ARGV[1] then return {1} end
      local t=redis.call('TIME')
      return {2,count,t[1]*1000+math.floor(t[2]/1000),redis.call('HGETALL',KEYS[1])}
      """
    case .keyvalSeed:
      """
      if redis.call('HGET',KEYS[1],'') then return 0 end
      local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)
      for i=1,#ARGV,3 do
        local ending=0
        if ARGV[i+1]~='' then ending=now+tonumber(ARGV[i+1]) end
        redis.call('HSET',KEYS[1],ARGV[i],string.format('%.0f',ending)..':'..ARGV[i+2])
      end
      redis.call('HSET',KEYS[1],'','1')
      return 1
      """
    }
  }
}
