package rank

// Detect reads the identity of this process from its environment and names the
// source that it came from: one of the constants Torchrun to Kubernetes, Alone
// where there is none. Values that are malformed or that contradict each other
// are an *Error; nothing is guessed past them.
func Detect(lookup func(string) (string, bool)) (Identity, string, error) {
	return Override{}.Detect(lookup)
}

// detect finds the claim about this process. Among several sources the order is
// torchrun's variables, then the table schedulers; pods are asked last.
//
// Two sources that tell the same rank and world are one, and complete each other.
// Otherwise one of them is about a launcher further out, whose variables its
// children inherit: torchrun or headrace launch in a step of srun with one task a
// node, or the daemons of mpirun, which srun starts likewise. See claim.started
// for when that can be. Everything else is a contradiction.
func detect(lookup Lookup) (claim, error) {
	claims, err := taskClaims(lookup)
	if err != nil {
		return claim{}, err
	}
	if len(claims) == 0 {
		return podClaim(lookup)
	}
	won, err := innermost(claims)
	if err != nil {
		return claim{}, err
	}
	for i := range claims {
		if c := &claims[i]; won.same(c) {
			won.fill(c)
		}
	}
	return won, won.complete()
}

// taskClaims asks all sources that speak of processes.
func taskClaims(lookup Lookup) ([]claim, error) {
	var claims []claim
	own, haveOwn, err := readTorchrun(lookup)
	if err != nil {
		return nil, err
	}
	if haveOwn {
		claims = append(claims, own)
	}
	for _, s := range schedulers {
		c, found, err := s.read(lookup)
		if err != nil {
			return nil, err
		}
		if found {
			claims = append(claims, c)
		}
	}
	if !haveOwn {
		return claims, orphan(&own, claims)
	}
	return claims, nil
}

// readTorchrun reads torchrun's variables. In a pod of Kubeflow RANK and
// WORLD_SIZE without LOCAL_RANK are the pod's, and podClaim's business.
func readTorchrun(lookup Lookup) (claim, bool, error) {
	c, found, err := torchrun.read(lookup)
	c.daemon = c.id.RunID != ""
	if !found || err != nil {
		return c, found, err
	}
	if c.names[fieldLocalRank] == "" && c.names[fieldNode] == "" && !c.daemon {
		if pod, inPod, err := pods[0].readPod(lookup); inPod && err == nil {
			return c, false, pod.checkPodRank(&c, lookup)
		}
	}
	return c, true, nil
}

// orphan refuses an environment that has a rank's local or node numbers but no
// rank. Under a scheduler LOCAL_RANK alone may be the script's way to choose a
// GPU, and must agree.
func orphan(own *claim, claims []claim) error {
	local := own.names[fieldLocalRank] != ""
	if own.names[fieldRank] != "" { // a pod's
		return nil
	}
	for i := range claims {
		c := &claims[i]
		if local && c.names[fieldLocalRank] != "" && own.id.LocalRank != c.id.LocalRank {
			return &Error{localRankVar, itoa(own.id.LocalRank), "but " + c.source.name + " says " + relate(c.names[fieldLocalRank], c.id.LocalRank) +
				", and " + rankVar + " is not set: unset the one that is left over"}
		}
	}
	switch {
	case len(claims) > 0:
		return nil
	case local:
		return &Error{rankVar, "", localRankVar + " is; set both, or neither for a single process"}
	case own.names[fieldNode] != "":
		return &Error{rankVar, "", own.names[fieldNode] + " is; set both, or neither for a single process"}
	}
	return nil
}

// innermost is the claim that is about this process, and not about a launcher
// around it.
func innermost(claims []claim) (claim, error) {
	won := &claims[0]
	for i := 1; i < len(claims); i++ {
		c := &claims[i]
		switch {
		case won.same(c), won.started(c):
		case won.source.name != Torchrun && c.started(won):
			won = c
		default:
			return claim{}, won.conflict(c)
		}
	}
	return *won, nil
}

// alone is the claim of a process that is its whole job.
func alone() claim { return claim{source: scheduler{name: Alone}, id: Single()} }
